// The page of a result: a grid in the place of the table, and the tools above it.

import { make } from "./dom.js";
import { askForColumn, askForColumns, askForGroups, confirmDeletion, inWords, showCell, showProfile } from "./dialogs.js";
import { Grid } from "./grid.js";
import { Problem, Rows, isAsked, send } from "./rows.js";
import { grouped, isNumber, shown } from "./values.js";
import { bars } from "./bars.js";

const PAGE = 200;
const SLOW = 400; // milliseconds until a request is shown
const SENTENCES = {
  401: "You are not signed in any more. Sign in and reload the page.",
  404: "This result does not exist any more, or it is not yours.",
  410: "This result has expired. Ask the question again to get a new one.",
  503: "The database is busy.",
  504: "The database took too long. Filter the rows, or try again.",
};

const root = document.getElementById("result");
const url = root.dataset.url;
const isLink = root.dataset.link === "yes";
const may = { query: !isLink, pin: root.dataset.pin === "yes", delete: root.dataset.delete === "yes" };
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
  const retry = make("button", { onclick: () => { say(""); load(); } }, "Try again");
  if (!(error instanceof Problem)) return say("The server cannot be reached.", retry);
  const sentence = SENTENCES[error.status] ?? `${error.message} ${error.hint}`;
  say(sentence, ...([404, 410].includes(error.status) ? [] : [retry]));
}

async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    failed(error);
    return undefined;
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
  const first = Math.floor(state.row / limit);
  const slow = setTimeout(() => { if (mine === rows) say("Reading…", make("button", { onclick: () => { mine.stop(); say("Cancelled."); } }, "Cancel")); }, SLOW);
  const isRead = await attempt(async () => { await mine.read(first); return true; });
  clearTimeout(slow);
  if (mine !== rows || !isRead || !mine.columns) return;
  say("");
  if (!isAsked(state)) columns = mine.columns;
  if (!grid) start();
  await grid.show(mine, described(mine), { keepsPlace: state.row > 0 });
  if (state.row) await grid.goTo(state.row);
  chart(mine);
  tools();
  attempt(() => mine.countAll());
}

function described(mine) {
  const order = Object.fromEntries(state.sort.map((key) => [key.field, key.order]));
  return mine.columns.map((column, index) => ({ ...column, index, order: order[column.name], isHidden: state.hidden.includes(column.name) }));
}

function tell() {
  const { rows: total, kind } = rows.total ?? {};
  const words = { estimated: "about ", capped: "at least " }[kind] ?? "";
  const what = state.group ? "groups" : total === 1 ? "row" : "rows";
  document.getElementById("total").textContent = total === null || total === undefined ? "rows not counted" : `${words}${grouped(total)} ${what}`;
}

function start() {
  document.documentElement.classList.add("fills");
  document.getElementById("pages")?.remove();
  const host = document.getElementById("rows");
  host.removeAttribute("tabindex");
  host.classList.add("grid");
  grid = new Grid(host, {
    sort: (column, isAdded) => sortBy(column, { asc: "desc", desc: undefined }[column.order] ?? (column.order ? undefined : "asc"), isAdded),
    menu: async (column) => {
      const chosen = await askForColumn(column, { canFilter: may.query && !state.group });
      if (chosen?.sort) sortBy(column, chosen.sort, false);
      if (chosen?.hide) change({ hidden: [...state.hidden, column.name], row: state.row });
      if (chosen?.filter) change({ filters: [...state.filters, chosen.filter] });
    },
    cell: showCell,
    drawn: (first) => {
      if (first === state.row) return;
      state.row = first;
      clearTimeout(grid.settled);
      grid.settled = setTimeout(() => history.replaceState(null, "", writeState()), 300);
    },
    said: (text) => say(text),
  });
  window.addEventListener("popstate", () => { state = readState(); load(); });
}

function sortBy(column, order, isAdded) {
  const others = isAdded ? state.sort.filter((key) => key.field !== column.name) : [];
  return change({ sort: order ? [...others, { field: column.name, order }] : others });
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
    may.query && make("button", { onclick: profile }, "Profile"),
    asked ? make("button", { onclick: keep }, "Keep as a new result") : download,
    may.pin && make("button", { onclick: pin }, isPinned() ? "Unpin" : "Pin"),
    may.delete && make("button", { onclick: remove }, "Delete"),
    ...state.filters.map((filter, index) => chip(inWords(filter), () => change({ filters: state.filters.filter((_, other) => other !== index) }))),
    state.group && chip("Back to the rows", () => change({ group: null, sort: [] })),
  ].filter(Boolean));
  for (const link of download?.querySelectorAll("a") ?? []) {
    const address = new URL(link.href);
    const names = state.sort.map((key) => (key.order === "desc" ? `-${key.field}` : key.field));
    if (names.length) address.searchParams.set("sort", names.join(","));
    else address.searchParams.delete("sort");
    link.href = address.href;
  }
}

function chip(text, onclick) {
  return make("button", { className: "chip", onclick, "aria-label": `Remove: ${text}` }, make("bdi", {}, text), " ✕");
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
    const row = Number(input.value.replace(/\D/g, ""));
    if (row) attempt(() => grid.goTo(row - 1)).then(() => grid.focus());
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

async function profile() {
  say("Reading…");
  const answer = await attempt(() => send(`${url}/profile`, { method: "GET" }));
  if (!answer) return;
  say("");
  showProfile(answer);
}

async function keep() {
  const { offset, limit: _, big_integers: __, ...body } = rows.body;
  const made = await attempt(() => send(`${url}/refine`, { body: { ...body, name: document.title } }));
  if (made) location.assign(new URL(made.resource.uri.replace(/^.*:\/\//, "./"), new URL(url, location.href)).href);
}

// Lifetime.

const timeLeft = document.getElementById("time-left");

function isPinned() {
  return timeLeft.dataset.expires === undefined;
}

async function pin() {
  const answer = await attempt(() => send(isPinned() ? `${url}/pin` : url, { method: isPinned() ? "DELETE" : "PUT" }));
  if (!answer) return;
  if (answer.expires_at) timeLeft.dataset.expires = answer.expires_at;
  else delete timeLeft.dataset.expires;
  tick();
  tools();
}

async function remove() {
  if (!(await confirmDeletion())) return;
  const answer = await attempt(() => send(url, { method: "DELETE" }));
  if (answer === null) {
    rows.stop();
    document.getElementById("rows").replaceChildren();
    bar.replaceChildren();
    say("The result is deleted.");
  }
}

function tick() {
  if (isPinned()) {
    timeLeft.textContent = "pinned: kept until it is deleted";
    return;
  }
  const minutes = Math.floor((new Date(timeLeft.dataset.expires) - Date.now()) / 60000);
  timeLeft.textContent = minutes < 0 ? "expired" : minutes < 1 ? "expires in less than a minute"
    : minutes < 120 ? `expires in ${minutes} min` : `expires in ${Math.floor(minutes / 60)} hours`;
}

/** Bars beside the groups: the first number of each of the first groups. */
function chart(mine) {
  document.getElementById("chart")?.remove();
  if (!state.group?.by.length || !mine.count) return;
  const value = mine.columns.findLastIndex((column) => isNumber(column));
  if (value < 1) return;
  const count_ = Math.min(mine.count, limit, 50);
  const marks = Array.from({ length: count_ }, (_, index) => ({ label: mine.row(index)?.[0].text ?? "", value: Number(mine.value(index, value)) }));
  document.getElementById("rows").before(bars(marks, mine.columns[value].name, mine.columns[0].name));
}

setInterval(tick, 20_000);
load();
