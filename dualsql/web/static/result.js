// The page of a result: a grid in the place of the table, the tools above it, values and a chart beside it.

import { ChartPanel, firstChart } from "./chart.js";
import { Facets } from "./facets.js";
import { Grid } from "./grid.js";
import { Lifetime } from "./lifetime.js";
import { Problem, Rows, isAsked, orderBy, send, sentenceOf, sortedBy } from "./rows.js";
import { Summaries, share } from "./summaries.js";
import { addressOf, ordered, readState } from "./state.js";
import { setFileLink } from "./download.js";
import { askForColumn, askForColumns, askForGroups, showCell, showProfile } from "./dialogs.js";
import { bucketNamed, chips, columnOf, conditionsOfGroup, inWords, keysOf, searchField, searchIn, withSearch } from "./filters.js";
import { SLOW, closeMenus, keepFocus, make } from "./dom.js";
import { columnInWords, selectionInWords } from "./status.js";
import { drawBars } from "./bars.js";
import { grouped, isNumber, shown, totalInWords, wholeNumber } from "./values.js";
import { Labels } from "./labels.js";
import { openReferred, showCard } from "./card.js";
import { EXAMPLE, readQuestion } from "./question.js";

const PAGE = 200;
const DAY = 10; // characters of a day
const ENDS = [404, 410]; // nothing to try again

const root = document.getElementById("result");
const url = root.dataset.url;
const isLink = root.dataset.link === "yes";
const may = { query: !isLink, chart: root.dataset.chart === "yes", pin: root.dataset.pin === "yes", delete: root.dataset.delete === "yes" };
const references = JSON.parse(root.dataset.references);
const body = document.getElementById("rows");
const message = document.getElementById("message");
const bar = document.getElementById("tools");
const download = bar.querySelector(".menu");
const limit = Math.min(PAGE, Number(root.dataset.limit));

let state = readState();
let rows = null;
let columns = []; // of the result itself
let field = null; // of the search
const zoned = new Set(); // names of those whose instants have a zone
let grid = null;
let settling; // the timer after which the address has the row
let waiting; // the timer after which reading is said
let progress = null; // what says it
const reading = make("span"); // what is said of it

// The parts of the page beside the grid.
const work = make("div", { className: "work" });
const status = make("p", { id: "status", className: "facts" });
const facets = new Facets(url, make("aside", { className: "facets", "aria-label": "Values", hidden: true }), { changed: (changes) => ("filters" in changes ? change(changes) : arrange(changes)) });
const chart = new ChartPanel(url, make("aside", { className: "chart-panel", "aria-label": "Chart", hidden: true }), {
  changed: (chart) => arrange({ chart }),
  closed: () => arrange({ chart: null }),
});
const summaries = may.query ? new Summaries(url, (column) => openValues(column)) : null;
const labels = new Labels(root.dataset.home, () => grid?.draw());
const lifetime = new Lifetime({ url, place: document.getElementById("time-left"), may, isListed: !isLink }, {
  attempt, say, changed: tools,
  deleted: () => {
    rows?.stop();
    summaries?.stop();
    body.replaceChildren();
    work.remove();
    status.remove();
    bar.replaceChildren();
    document.getElementById("total").textContent = "no rows any more";
    for (const each of [document.getElementById("took")?.parentElement, root.querySelector(".sql .button")]) each?.remove();
    say("The result is deleted.");
  },
});

/** Another question: its rows are read. */
function change(changes) {
  state = { ...state, row: 0, ...changes };
  history.pushState(null, "", addressOf(state));
  return load();
}

/** The same rows, shown in another way. */
function arrange(changes) {
  state = { ...state, ...changes };
  history.pushState(null, "", addressOf(state));
  return show(true);
}

// Messages to the person.

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

function button(text, onclick, properties) {
  return make("button", { ...properties, onclick: () => onclick() }, text);
}

function again() {
  say("");
  return load();
}

/** Work that the person may cancel: its request is called off, and with it the query. Undefined where it failed. */
async function attempt(run, whenCancelled = () => {}) {
  const controller = new AbortController();
  const started = Date.now();
  const seconds = make("span", { "aria-hidden": "true" });
  const cancel = () => {
    controller.abort();
    whenCancelled();
    say("Cancelled.", button("Try again", again));
  };
  const slow = setTimeout(() => say(readingText(), seconds, make("progress", { "aria-label": "The query runs" }), button("Cancel", cancel)), SLOW);
  const ticking = setInterval(() => { seconds.textContent = `${Math.round((Date.now() - started) / 1000)} s`; }, 1000);
  try {
    return await run(controller.signal);
  } catch (error) {
    failed(error);
    return undefined;
  } finally {
    clearTimeout(slow);
    clearInterval(ticking);
    if (message.contains(seconds)) say("");
  }
}

/** The words for what is being read; those of rows that are kept meanwhile have the number of them. */
function readingText(kept) {
  if (kept?.rows_so_far === undefined) reading.replaceChildren("Reading…");
  else {
    if (!reading.firstElementChild) reading.replaceChildren("The query takes long. It runs once more, and its rows are kept: then any order of them is fast. ", make("span", { "aria-hidden": "true" }));
    reading.firstElementChild.textContent = `${grouped(kept.rows_so_far)} rows so far. `;
  }
  return reading;
}

// Rows.

async function load() {
  rows?.stop();
  summaries?.stop();
  const started = performance.now();
  const mine = new Rows(url, state, {
    limit,
    format: (values, described) => ofGroup(values.map((value, index) => shown(value, described[index], state.isExact)), values, mine.question.group),
    changed: () => { if (mine === rows) { showTotal(); grid?.draw(); } },
    failed: (error) => { if (mine === rows) failed(error); },
    late: ({ kept }) => {
      if (mine !== rows) return;
      readingText(kept);
      if (kept?.kept && kept.as_of) showTime(kept.as_of);
    },
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
  showSeconds(performance.now() - started);
  if (!state.group) {
    ({ columns } = mine);
    columns.forEach(({ name }, index) => { if (mine.hasZone(index)) zoned.add(name); });
  }
  if (!columns.length) columns = (await attempt((signal) => send(url, { method: "GET", signal })))?.columns ?? [];
  if (!grid) start();
  const { sort, order_by: _, ...question } = mine.body;
  summaries?.ask({ body: question, isGrouped: Boolean(state.group) });
  await show(row > 0);
  if (row) await grid.goTo(row);
  if (!mine.count) say("No rows.");
  attempt(() => mine.countAll(), () => mine.counting.abort());
}

/** The cells of a group: a month is no day, and behind each number of values stands the share of NULLs. */
function ofGroup(cells, values, group) {
  keysOf(group ?? { by: [] }).forEach(({ bucket }, index) => {
    const characters = bucket && bucketNamed(bucket).characters;
    if (characters < DAY && values[index] !== null && !state.isExact) cells[index] = { ...cells[index], text: String(values[index]).slice(0, characters) };
  });
  const all = group?.aggregates.findIndex((aggregate) => aggregate.function === "count" && !aggregate.column);
  group?.aggregates.forEach((aggregate, index) => {
    const place = group.by.length + index;
    if (aggregate.function !== "count" || !aggregate.column || all < 0) return;
    cells[place] = { ...cells[place], text: `${cells[place].text} (${nullShare(values[place], values[group.by.length + all])} NULL)` };
  });
  return cells;
}

function nullShare(present, all) {
  return share(Number(all) - Number(present), Number(all));
}

/** How long the database took for the first rows, with the way to it. */
function showSeconds(milliseconds) {
  const place = document.getElementById("took");
  if (place) place.textContent = `, read in ${milliseconds < 995 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`}`;
}

/** Of what time rows are that were live until now. */
function showTime(asOf) {
  const time = make("time", { dateTime: asOf }, `${asOf.slice(0, "2026-11-29T10:18".length).replace("T", " ")} UTC`);
  document.getElementById("took")?.parentElement.replaceChildren("rows as of ", time);
}

/** Draw what was read as the state says. */
async function show(keepsPlace) {
  await grid.show(rows, shownColumns(), { ...state, keepsPlace });
  drawBars(rows, state.chart ? null : state.group, work);
  facets.show(state, columns);
  chart.show(state, columns);
  tools();
  showTotal();
}

function shownColumns() {
  const placed = rows.columns.map((column, index) => ({ ...column, index, isFrozen: state.frozen.includes(column.name), reference: state.group ? undefined : references[column.name] }));
  return ordered(placed, state).filter((column) => state.group || !state.hidden.includes(column.name));
}

function showTotal() {
  const { rows: total, kind } = rows.total ?? {};
  document.getElementById("total").textContent = totalInWords(total, kind, state.group);
}

function start() {
  document.documentElement.classList.add("fills");
  document.getElementById("pages")?.remove();
  body.removeAttribute("tabindex");
  body.classList.add("grid");
  body.before(work);
  work.append(facets.place, body, chart.place);
  work.after(status);
  grid = new Grid(body, {
    sort: sortBy,
    menu: askAbout,
    cell: (value, column, y, cut) => (state.group?.by.length ? drill(y) : showCell(value, column, y, cut)),
    card,
    move,
    follow: (column, value) => attempt(() => openReferred(root.dataset.home, column.reference, value)),
    label: (column, value) => labels.of(column.reference, value),
    summary: summaries ? (column) => summaries.placeOf(column) : undefined,
    summarised: (columns) => summaries?.want(columns),
    selected: showSelection,
    drawn: (first) => {
      waitForRows();
      if (first === state.row) return;
      state.row = first;
      clearTimeout(settling);
      settling = setTimeout(() => history.replaceState(null, "", addressOf(state)), 300);
    },
    say,
    resized: (widths) => {
      state = { ...state, widths: { ...state.widths, ...widths } };
      history.replaceState(null, "", addressOf(state));
    },
  });
  document.addEventListener("keydown", press);
  window.addEventListener("popstate", () => { state = readState(); load(); });
  closeMenus(bar);
}

async function askAbout(column) {
  const names = shownColumns().map(({ name }) => name);
  const shownColumn = { ...column, width: grid.widthOf(column), hasZone: rows.hasZone(column.index), place: names.indexOf(column.name) + 1, places: names.length };
  const answer = await askForColumn(shownColumn, { canFilter: may.query && !state.group });
  if (answer && "width" in answer) arrange({ widths: { ...state.widths, [column.name]: answer.width ?? undefined } });
  if (answer?.sort) sortBy(column, answer.sort);
  if (answer?.hide) arrange({ hidden: [...state.hidden, column.name] });
  if (answer?.filter) change({ filters: [...state.filters, answer.filter] });
  if (answer?.values) openValues(column);
  if (answer?.place) move(column, answer.place - 1);
  if (answer?.freeze) arrange({ frozen: column.isFrozen ? state.frozen.filter((name) => name !== column.name) : [...state.frozen, column.name] });
}

/** Move a column to a place; frozen ones stay before the others. */
function move(column, place) {
  const names = shownColumns().map(({ name }) => name).filter((name) => name !== column.name);
  names.splice(place, 0, column.name);
  arrange({ order: names, frozen: names.filter((name) => state.frozen.includes(name)) });
}

/** The values of a column beside the grid. */
function openValues(column) {
  if (state.group || state.facets.some((facet) => facet.name === column.name)) return;
  arrange({ facets: [...state.facets, { name: column.name }] });
}

/** The rows of a group. */
function drill(y) {
  const values = state.group.by.map((_, index) => rows.value(y, index));
  if (values.includes(undefined)) return;
  const existing = new Set(state.filters.map(inWords));
  change({ filters: [...state.filters, ...conditionsOfGroup(state.group, values).filter((condition) => !existing.has(inWords(condition)))], group: null, sort: [] });
}

async function card(y) {
  const values = await attempt(async () => (await rows.has(y) ? (await rows.whole(y))[0] : undefined));
  if (!values) return;
  showCard({
    y, values, columns: shownColumns(), isExact: state.isExact,
    follow: (column, value) => attempt(() => openReferred(root.dataset.home, column.reference, value)),
    move: (by) => { if (y + by >= 0) card(y + by); },
  });
}

/** Which rows are on the screen, and the figures of the cells that are selected. */
function showSelection(selection) {
  const last = Math.min(rows.count, grid.top + grid.visible);
  const place = rows.count ? `Rows ${grouped(grid.top + 1)} to ${grouped(last)}` : "";
  const hint = state.group?.by.length ? "Enter shows the rows of a group" : rows.count > 0 && button("Row as a card", () => card(grid.active.y), { title: "Space" });
  const selectedColumns = grid.columns.slice(selection.x0, selection.x1 + 1);
  const words = selectionInWords(rows, selectedColumns, selection);
  status.replaceChildren(...[place, words || hint, !words.includes(":") && words && wholeColumn(selectedColumns, selection)].filter(Boolean).map((part) => make("span", {}, part)));
  status.dataset.printed = [document.title, document.getElementById("total").textContent, ...state.filters.map(inWords)].join("; ");
}

/** The server computes the figures of a whole column. */
function wholeColumn(selectedColumns, { y0, y1 }) {
  const column = selectedColumns.find(isNumber);
  if (!column || state.group || !may.query || y0 > 0 || y1 < rows.count - 1) return null;
  return button(`Sum and mean of ${column.name}`, async () => {
    const words = await attempt((signal) => columnInWords(url, state, column, signal));
    if (words) say(words);
  });
}

/** Says so while rows on the screen are read for long. */
function waitForRows() {
  if (!grid.isMissing || !rows.isReading) {
    stopWaiting();
    return;
  }
  waiting ??= setTimeout(() => {
    progress = make("progress", { "aria-label": "The query runs" });
    say(readingText(), progress, button("Cancel", () => {
      rows.callOff();
      say("Cancelled.", button("Try again", () => { say(""); grid.draw(); }));
    }));
  }, SLOW);
}

function stopWaiting() {
  if (!grid) return;
  clearTimeout(waiting);
  waiting = undefined;
  if (message.contains(progress)) say("");
}

function sortBy(column, order, isAdded) {
  return change({ sort: sortedBy(state.sort, column, order, isAdded) });
}

// Tools.

function tools() {
  keepFocus(bar, () => bar.replaceChildren(...[
    may.query && !state.group && search(),
    goTo(),
    may.query && button(state.group ? "Change groups" : "Group", group),
    may.query && !state.group && button("Values", toggleValues, { "aria-pressed": String(state.facets.length > 0) }),
    button("Columns", chooseColumns),
    may.chart && button("Chart", () => arrange({ chart: state.chart ? null : firstChart(columns, state.group, fewRows()) }), { "aria-pressed": String(Boolean(state.chart)) }),
    may.query && button("Profile", profile),
    download,
    isAsked(state) && button("Keep as a new result", keep),
    ...lifetime.buttons(),
    ...chips(state, change, changeFilter),
  ].filter(Boolean)), grid);
  const question = { state, columns: ordered(columns, state), body: rows?.body ?? {}, url };
  for (const link of download?.querySelectorAll("a") ?? []) setFileLink(link, question, attempt, say);
}

/** All rows, where one page has them. */
function fewRows() {
  return rows?.isCounted && rows.count <= limit ? rows.pages.get(0)?.values : undefined;
}

/** The field of the search. What is typed while rows load stays. */
function search() {
  const filter = (conditions) => {
    field.value = "";
    change({ filters: withSearch(state.filters, conditions) });
  };
  field ??= searchField(columns, filter, say, { ask, example: EXAMPLE });
  return field;
}

/** Whether a text of the search field is a question. It is asked of the rows that the filters keep. */
function ask(text) {
  try {
    const question = readQuestion(text, columns.map((column) => ({ ...column, hasZone: zoned.has(column.name) })));
    if (!question) return false;
    const { filters, group, sort, hasChart } = question;
    const specification = hasChart ? firstChart(columns, group) : null;
    field.value = "";
    change({ filters: [...state.filters, ...filters], group, sort: sort.length || group || state.group ? sort : state.sort, ...(specification ? { chart: specification } : {}) });
  } catch (error) {
    say(`${error.message} In double quotes, the text is searched for.`);
  }
  return true;
}

/** Ctrl+K goes to the search, as does what is written while the grid or nothing has the focus; Ctrl+S saves what is seen as CSV. */
function press(event) {
  if (event.altKey || document.querySelector("dialog[open]")) return;
  const field = bar.querySelector("[type=search]");
  if (!event.ctrlKey && !event.metaKey) {
    const isFree = document.activeElement === document.body || body.contains(document.activeElement);
    if (field && isFree && event.key.length === 1 && event.key !== " ") field.select();
    return;
  }
  if (event.shiftKey) return;
  const link = [...(download?.querySelectorAll("a") ?? [])].find(({ href }) => {
    const { searchParams } = new URL(href);
    return searchParams.get("format") === "csv" && !searchParams.has("excel");
  });
  const act = { k: field && (() => field.select()), s: link && (() => link.click()) }[event.key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  act();
}

/** Change a filter by the dialog of its column, or a search by its field. */
async function changeFilter(filter) {
  const text = searchIn(filter);
  if (text !== undefined) {
    const input = bar.querySelector("[type=search]");
    input.value = text;
    input.focus();
    return;
  }
  const column = columns.find(({ name }) => name === columnOf(filter));
  if (!column || !filter.op) {
    if (column) openValues(column);
    return;
  }
  const index = rows.columns.findIndex(({ name }) => name === column.name);
  const answer = await askForColumn({ ...column, hasZone: rows.hasZone(index) }, { canFilter: true, filter });
  if (answer?.filter) change({ filters: state.filters.map((other) => (other === filter ? answer.filter : other)) });
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
  const answer = await askForGroups(columns, state.group);
  if (answer) change({ group: answer, sort: [] });
}

/** The values of the first columns that have few of them, or none. */
function toggleValues() {
  if (state.facets.length) return arrange({ facets: [] });
  const fit = columns.filter((column) => ["text", "boolean", "date", "datetime"].includes(column.encoding)).slice(0, 3);
  return arrange({ facets: (fit.length ? fit : columns.slice(0, 1)).map(({ name }) => ({ name })) });
}

async function chooseColumns() {
  const answer = await askForColumns(rows.columns, state.hidden, state.isExact);
  if (!answer) return;
  if (answer.isExact !== state.isExact) change({ ...answer, row: state.row });
  else arrange(answer);
}

/** The profile of what is on the screen: all of its rows, or the first ones where the server has no time for all. */
async function profile() {
  const names = columns.map((column) => column.name);
  const only = !state.group && state.hidden.length ? { columns: names.filter((name) => !state.hidden.includes(name)) } : {};
  const { filters, group_by, aggregates } = rows.body;
  const first = { order_by: orderBy(state.sort) }; // of all rows, the order is nothing
  const profileOf = (kind) => attempt((signal) => send(`${url}/profile`, {
    body: { filters, group_by, aggregates, ...only, ...(kind === "sample" ? first : {}), kind }, signal,
  }));
  const all = await profileOf("full");
  const answer = all?.covers.rows === null ? await profileOf("sample") : all;
  if (answer) showProfile(answer, {
    columns: rows.columns,
    rows: `${state.group ? "group" : "row"}s${state.filters.length ? " that the filters keep" : ""}`,
    again: answer.covers.of === "all" ? null : profile,
  });
}

async function keep() {
  const refined = await attempt((signal) => send(`${url}/refine`, { body: { ...rows.body, name: document.title }, signal }));
  if (refined) location.assign(new URL(refined.resource.uri.replace(/^.*:\/\//, "./"), new URL(url, location.href)).href);
}

load();
