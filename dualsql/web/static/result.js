// The page of a result: a grid in the place of the table, and the tools above it.

import { make } from "./dom.js";
import { askForColumn, askForColumns, askForGroups, chips, confirmDeletion, showCell, showProfile } from "./dialogs.js";
import { Grid } from "./grid.js";
import { Problem, Rows, isAsked, send, sentenceOf, sortedBy } from "./rows.js";
import { grouped, shown, totalInWords, wholeNumber } from "./values.js";
import { drawBars } from "./bars.js";
import { showChart } from "./chart.js";

const PAGE = 200;
const SLOW = 400; // milliseconds until a request is shown
const ENDS = [404, 410]; // nothing to try again
const LONGEST_TIMER = 2 ** 31 - 1; // milliseconds

const root = document.getElementById("result");
const url = root.dataset.url;
const isLink = root.dataset.link === "yes";
const may = { query: !isLink, chart: root.dataset.chart === "yes", pin: root.dataset.pin === "yes", delete: root.dataset.delete === "yes" };
const body = document.getElementById("rows");
const message = document.getElementById("message");
const limit = Math.min(PAGE, Number(root.dataset.limit));

let state = readState();
let rows = null;
let columns = []; // of the result itself
let grid = null;

// The state stands behind the # of the address, which is not sent to any server.

function readState() {
  const values = new URLSearchParams(location.hash.slice(1));
  const json = (name, fallback) => {
    try {
      return JSON.parse(values.get(name)) ?? fallback;
    } catch {
      return fallback;
    }
  };
  const sort = values.get("sort") ?? new URLSearchParams(location.search).get("sort");
  return {
    sort: values.has("sorts") ? json("sorts", []) : (sort ?? "").split(",").filter(Boolean).map((name) =>
      (name.startsWith("-") ? { field: name.slice(1), order: "desc" } : { field: name, order: "asc" })),
    filters: json("filters", []),
    group: json("group", null),
    hidden: json("hidden", []),
    row: Math.max(0, Number(values.get("row")) - 1) || 0,
    isExact: values.has("exact"),
    widths: json("widths", {}),
  };
}

function writeState() {
  const values = new URLSearchParams();
  if (state.sort.length) values.set("sorts", JSON.stringify(state.sort));
  if (state.filters.length) values.set("filters", JSON.stringify(state.filters));
  if (state.group) values.set("group", JSON.stringify(state.group));
  if (state.hidden.length) values.set("hidden", JSON.stringify(state.hidden));
  if (state.row) values.set("row", String(state.row + 1));
  if (state.isExact) values.set("exact", "1");
  if (Object.keys(state.widths).length) values.set("widths", JSON.stringify(state.widths));
  const hash = values.toString();
  return `${location.pathname}${hash ? `#${hash}` : ""}`;
}

function change(changes) {
  state = { ...state, row: 0, ...changes };
  history.pushState(null, "", writeState());
  return load();
}

// What the person is told.

function say(text, ...actions) {
  message.replaceChildren(...(text ? [text, " ", ...actions] : []));
}

function failed(error) {
  if (error.name === "AbortError") return;
  stopWaiting();
  const sentence = sentenceOf(error);
  if (!(error instanceof Problem)) return say(sentence, button("Try again", again));
  if (columns.length) tools();
  if (error.status === 401) return say(sentence, button("Reload", () => location.reload()));
  if (ENDS.includes(error.status)) return say(sentence);
  if (error.status < 500 && (isAsked(state) || state.sort.length)) return say(sentence, button("Show all rows", () => change({ filters: [], group: null, sort: [] })));
  return say(sentence, button("Try again", again));
}

function button(text, onclick) {
  return make("button", { onclick: () => onclick() }, text);
}

function again() {
  say("");
  return load();
}

/** Work that the person may cancel: its request is called off, and with it the query. Undefined where it failed. */
async function attempt(work, whenCancelled = () => {}) {
  const controller = new AbortController();
  const started = Date.now();
  const seconds = make("span", { "aria-hidden": "true" });
  const cancel = () => {
    controller.abort();
    whenCancelled();
    say("Cancelled.", button("Try again", again));
  };
  const isMine = () => message.contains(seconds);
  const slow = setTimeout(() => say("Reading…", seconds, make("progress", { "aria-label": "The query runs" }), button("Cancel", cancel)), SLOW);
  const ticking = setInterval(() => { seconds.textContent = `${Math.round((Date.now() - started) / 1000)} s`; }, 1000);
  try {
    return await work(controller.signal);
  } catch (error) {
    failed(error);
    return undefined;
  } finally {
    clearTimeout(slow);
    clearInterval(ticking);
    if (isMine()) say("");
  }
}

// Rows.

async function load() {
  rows?.stop();
  const mine = new Rows(url, state, {
    limit,
    format: (values, described) => values.map((value, index) => shown(value, described[index], state.isExact)),
    changed: () => { if (mine === rows) { tell(); grid?.draw(); } },
    failed: (error) => { if (mine === rows) failed(error); },
  });
  rows = mine;
  const { row } = state; // what the grid draws changes it
  const isRead = await attempt(async () => {
    await mine.read(Math.floor(row / limit));
    if (row && !(await mine.has(row))) await mine.read(0);
    return true;
  }, () => mine.stop());
  if (mine !== rows || !isRead) return;
  say("");
  if (!state.group) ({ columns } = mine);
  else if (!columns.length) columns = (await attempt((signal) => send(url, { method: "GET", signal })))?.columns ?? [];
  if (!grid) start();
  await grid.show(mine, { ...state, keepsPlace: row > 0 });
  if (row) await grid.goTo(row);
  if (!mine.count) say("No rows.");
  drawBars(mine, state.group, body);
  tools();
  attempt(() => mine.countAll(), () => mine.counting.abort());
}

function tell() {
  const { rows: total, kind } = rows.total ?? {};
  document.getElementById("total").textContent = totalInWords(total, kind, state.group);
}

function start() {
  document.documentElement.classList.add("fills");
  document.getElementById("pages")?.remove();
  body.removeAttribute("tabindex");
  body.classList.add("grid");
  grid = new Grid(body, {
    sort: sortBy,
    menu: async (column) => {
      const known = { ...column, width: grid.widthOf(column), hasZone: rows.hasZone(column.index) };
      const chosen = await askForColumn(known, { canFilter: may.query && !state.group });
      if (chosen && "width" in chosen) change({ widths: { ...state.widths, [column.name]: chosen.width ?? undefined }, row: state.row });
      if (chosen?.sort) sortBy(column, chosen.sort);
      if (chosen?.hide) change({ hidden: [...state.hidden, column.name], row: state.row });
      if (chosen?.filter) change({ filters: [...state.filters, chosen.filter] });
    },
    cell: showCell,
    drawn: (first) => {
      waitForRows();
      if (first === state.row) return;
      state.row = first;
      clearTimeout(grid.settled);
      grid.settled = setTimeout(() => history.replaceState(null, "", writeState()), 300);
    },
    said: (text) => say(text),
    resized: (widths) => {
      state = { ...state, widths };
      history.replaceState(null, "", writeState());
    },
  });
  window.addEventListener("popstate", () => { state = readState(); load(); });
}

/** Says so while rows on the screen are read for long. */
function waitForRows() {
  if (!grid.isMissing || !rows.isReading) {
    stopWaiting();
    return;
  }
  grid.waiting ??= setTimeout(() => {
    grid.notice = make("progress", { "aria-label": "The query runs" });
    say("Reading…", grid.notice, button("Cancel", () => {
      rows.callOff();
      say("Cancelled.", button("Try again", () => { say(""); grid.draw(); }));
    }));
  }, SLOW);
}

function stopWaiting() {
  if (!grid) return;
  clearTimeout(grid.waiting);
  grid.waiting = undefined;
  if (message.contains(grid.notice ?? null)) say("");
}

function sortBy(column, order, isAdded) {
  return change({ sort: sortedBy(state.sort, column, order, isAdded) });
}

// Tools.

const bar = document.getElementById("tools");
const download = bar.querySelector(".menu");

function tools() {
  const asked = isAsked(state);
  bar.replaceChildren(...[
    may.query && !state.group && search(),
    goTo(),
    may.query && make("button", { onclick: group }, state.group ? "Change groups" : "Group"),
    make("button", { onclick: choose }, "Columns"),
    may.chart && make("button", { onclick: () => showChart(url, columns, state) }, "Chart"),
    may.query && make("button", { onclick: profile }, "Profile"),
    asked ? make("button", { onclick: keep }, "Keep as a new result") : download,
    may.pin && make("button", { onclick: pin }, isPinned() ? "Unpin" : "Pin"),
    may.pin && !isPinned() && make("button", { onclick: renew, title: "Start its lifetime again" }, "Renew"),
    may.delete && make("button", { onclick: remove }, "Delete"),
    ...chips(state, change),
  ].filter(Boolean));
  for (const link of download?.querySelectorAll("a") ?? []) {
    const address = new URL(link.href);
    const names = state.sort.map((key) => (key.order === "desc" ? `-${key.field}` : key.field));
    if (names.length) address.searchParams.set("sort", names.join(","));
    else address.searchParams.delete("sort");
    link.href = address.href;
  }
}

function search() {
  const input = make("input", { type: "search", placeholder: "Search texts", "aria-label": "Search the texts of all columns" });
  return make("form", { role: "search", onsubmit: (event) => {
    event.preventDefault();
    const texts = columns.filter((column) => column.encoding === "text");
    if (input.value && texts.length) change({ filters: [...state.filters, { or: texts.map((column) => ({ column: column.name, op: "contains", value: input.value })) }] });
  } }, input);
}

function goTo() {
  const input = make("input", { type: "text", inputMode: "numeric", placeholder: "Go to row", "aria-label": "Go to row", className: "short" });
  return make("form", { onsubmit: (event) => {
    event.preventDefault();
    const row = wholeNumber(input.value);
    if (!row) say(`Write the number of a row, such as ${grouped(1)}.`);
    else attempt(() => grid.goTo(row - 1), () => rows.callOff()).then(() => grid.focus());
  } }, input);
}

async function group() {
  const chosen = await askForGroups(columns);
  if (chosen) change({ group: chosen, sort: [] });
}

async function choose() {
  const chosen = await askForColumns(rows.columns, state.hidden, state.isExact);
  if (chosen) change({ ...chosen, row: state.row });
}

/** The profile of what is on the screen: all of its rows, or the first ones where the server has no time for all. */
async function profile() {
  const names = columns.map((column) => column.name);
  const chosen = !state.group && state.hidden.length ? { columns: names.filter((name) => !state.hidden.includes(name)) } : {};
  const { filters, group_by, aggregates } = rows.body;
  const first = { order_by: state.sort.map(({ field, order }) => ({ column: field, order })) }; // of all rows, the order is nothing
  const profileOf = (kind) => attempt((signal) => send(`${url}/profile`, {
    body: { filters, group_by, aggregates, ...chosen, ...(kind === "sample" ? first : {}), kind }, signal,
  }));
  const all = await profileOf("full");
  const answer = all?.covers.rows === null ? await profileOf("sample") : all;
  if (answer) showProfile(answer, {
    rows: `${state.group ? "group" : "row"}s${state.filters.length ? " that the filters keep" : ""}`,
    again: answer.covers.of === "all" ? null : profile,
  });
}

async function keep() {
  const made = await attempt((signal) => send(`${url}/refine`, { body: { ...rows.body, name: document.title }, signal }));
  if (made) location.assign(new URL(made.resource.uri.replace(/^.*:\/\//, "./"), new URL(url, location.href)).href);
}

// Lifetime.

const timeLeft = document.getElementById("time-left");

function isPinned() {
  return timeLeft.dataset.expires === undefined;
}

async function pin() {
  const answer = await attempt(() => send(isPinned() ? `${url}/pin` : url, { method: isPinned() ? "DELETE" : "PUT" }));
  if (answer) lives(answer.expires_at);
}

/** A new lifetime: a result that is pinned and unpinned expires one lifetime from now. */
async function renew() {
  const answer = await attempt(async () => {
    await send(url, { method: "PUT" });
    return send(`${url}/pin`, { method: "DELETE" });
  });
  if (!answer) return;
  lives(answer.expires_at);
  say(`Renewed: the result ${timeLeft.textContent}.`);
}

function lives(expiresAt) {
  if (expiresAt) timeLeft.dataset.expires = expiresAt;
  else delete timeLeft.dataset.expires;
  tick();
  tools();
}

async function remove() {
  if (!(await confirmDeletion())) return;
  const answer = await attempt(() => send(url, { method: "DELETE" }));
  if (answer === null) {
    rows.stop();
    body.replaceChildren();
    bar.replaceChildren();
    say("The result is deleted.");
  }
}

let ending;

function tick() {
  clearTimeout(ending);
  if (isPinned()) {
    timeLeft.textContent = "pinned: kept until it is deleted";
    return;
  }
  const left = new Date(timeLeft.dataset.expires) - Date.now();
  const minutes = Math.floor(left / 60000);
  timeLeft.textContent = left <= 0 ? "expired" : minutes < 1 ? "expires in less than a minute"
    : minutes < 120 ? `expires in ${minutes} min` : `expires in ${Math.floor(minutes / 60)} hours`;
  if (left > 0) ending = setTimeout(ended, Math.min(left + 1000, LONGEST_TIMER)); // the server says whole seconds
}

/** The lifetime that this page knows of is over; with sliding expiration, the server may know of a longer one. */
async function ended() {
  tick();
  const answer = await attempt(() => send(url, { method: "GET" }));
  if (answer) lives(answer.expires_at);
}

setInterval(tick, 20_000);
tick();
load();
