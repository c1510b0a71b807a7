// The MCP App: the grid of a result inside a host. It reads rows by a tool of the server, since a host lets no request leave
// its frame. Without that tool it shows the rows that the tool's answer holds.

import { answerOf, asPage } from "./answers.js";
import { drawBars } from "./bars.js";
import { csvLine } from "./csv.js";
import { askForColumn, askForGroups, showCell } from "./dialogs.js";
import { chips, inWords, searchField, withSearch } from "./filters.js";
import { SLOW, keepFocus, make } from "./dom.js";
import { Grid, ROW } from "./grid.js";
import { ask, connect, host, notify } from "./host.js";
import { Problem, Rows, bodyOf, isAsked, orderBy, sortedBy } from "./rows.js";
import { addressOf } from "./state.js";
import { exact, grouped, shown, totalInWords, visible } from "./values.js";

const PAGE_TOOL = "dualsql_app_rows";
const TALLEST = 600; // pixels inline
const FEWEST = 3; // rows, with the header: in a host that gives less height than they take, the whole App scrolls
const MOST_VALUES = 20; // selected cells whose values the model gets
const MOST_SAVED = 100_000; // rows of a file
const SHORTEST_WAIT = 1000; // milliseconds between two readings of a result whose query still runs
const LONGEST_WAIT = 15_000;
const START = { sort: [], filters: [], group: null };

const { pages, limit } = document.getElementById("result").dataset;
const hasPages = pages === "yes";
let size = Number(limit); // rows of a page; 0 where the server has no tool that reads them
const body = document.getElementById("rows");
const total = document.getElementById("total");
const message = document.getElementById("message");
const bar = document.getElementById("tools");
const fonts = document.head.appendChild(make("style")); // those of the host

let answer = null; // of the tool: resource, metadata and the rows of its sample
let state = START;
let rows = null;
let columns = [];
let grid = null;
let isSample = false;
let timer = null;

function say(text, ...actions) {
  message.replaceChildren(...(text ? [text, " ", ...actions] : []));
}

// The host.

function heard(method, params) {
  if (method === "ui/notifications/tool-result") take(params);
  if (method === "ui/notifications/tool-cancelled") say("The call was cancelled. There are no rows to show.");
  if (method === "ui/notifications/host-context-changed") adopt(params);
  if (method === "ui/resource-teardown") stop();
}

function adopt(context) {
  host.context = { ...host.context, ...context };
  const { theme, displayMode, containerDimensions, safeAreaInsets, styles } = host.context;
  const root = document.documentElement;
  if (theme) root.dataset.theme = theme;
  for (const [name, value] of Object.entries(styles?.variables ?? {})) if (value !== undefined) root.style.setProperty(name, value);
  if (styles?.css?.fonts) fonts.textContent = styles.css.fonts;
  root.classList.toggle("fullscreen", displayMode === "fullscreen");
  root.classList.toggle("filled", displayMode === "fullscreen" || containerDimensions?.height !== undefined);
  if (safeAreaInsets) for (const [side, pixels] of Object.entries(safeAreaInsets)) document.body.style.setProperty(`padding-${side}`, `${pixels}px`);
  if (rows) tools();
  fit();
}

/** As tall as its rows, up to a bound; a host that gives a height or the whole screen is filled. */
function fit() {
  const root = document.documentElement;
  if (root.classList.contains("filled")) body.style.height = "";
  else if (grid?.rows) {
    const others = root.offsetHeight - body.offsetHeight;
    const height = (grid.rows.count + 1) * ROW + 2 + grid.table.offsetHeight - grid.table.clientHeight;
    body.style.height = `${Math.min(height, Math.max(tallest() - others, FEWEST * ROW))}px`;
  }
  grid?.draw();
}

function tallest() {
  return Math.min(host.context.containerDimensions?.maxHeight ?? TALLEST, TALLEST);
}

let reported = 0;

function report() {
  const height = Math.min(Math.ceil(document.documentElement.getBoundingClientRect().height), tallest());
  if (height === reported || document.documentElement.classList.contains("filled")) return;
  reported = height;
  notify("ui/notifications/size-changed", { height });
}

function stop() {
  rows?.stop();
  clearTimeout(timer);
}

// The result.

/** The tool's answer: a dual response, or something else, of which there are no rows. */
function take(result) {
  stop();
  answer = answerOf(result);
  state = START;
  isSample = false;
  document.getElementById("name").textContent = visible(answer.resource?.name ?? "Result");
  if (answer.resource) return load();
  body.hidden = true;
  total.textContent = "";
  bar.replaceChildren();
  return say(answer.words || "There are no rows to show.");
}

/** A page of rows, by the tool: what the REST endpoint answers, under the same rights. */
async function readPage(address, { body: request, signal }) {
  const result = await ask("tools/call", { name: PAGE_TOOL, arguments: { resource: answer.resource.uri, request } }, signal);
  const content = result.structuredContent ?? {};
  if (result.isError || !content.data) throw new Problem(0, content.error ?? { message: result.content?.[0]?.text ?? "The host gave no rows." });
  return content;
}

function rowsOf(question, send, most = size) {
  const newRows = new Rows("", question, {
    limit: most,
    send,
    format: (values, described) => values.map((value, index) => shown(value, described[index], false)),
    changed: () => { if (newRows === rows) { tell(); grid?.draw(); } },
    failed: (error) => { if (newRows === rows) failed(error); },
  });
  return newRows;
}

/** Read the first rows of what is asked, or, where rows cannot be read, those of the answer. */
async function load(wait = SHORTEST_WAIT) {
  stop();
  isSample = !size || !host.can.serverTools;
  if (isSample) return showSample();
  const mine = rowsOf(state, readPage);
  rows = mine;
  say("Reading…");
  const slow = setTimeout(() => say("Reading…", make("button", { onclick: () => { mine.stop(); say("Cancelled.", again()); } }, "Cancel")), SLOW);
  try {
    await mine.read(0);
  } catch (error) {
    return mine === rows && error.name !== "AbortError" ? unread(error, wait) : undefined;
  } finally {
    clearTimeout(slow);
  }
  if (mine !== rows) return undefined;
  say(mine.count ? "" : "There are no rows.");
  if (!isAsked(state)) ({ columns } = mine);
  await show(mine);
  return mine.countAll().catch(failed);
}

/** The first rows cannot be read: wait for a query that runs, else fall back to the rows of the answer. */
async function unread(error, wait) {
  if (isTooLarge(error)) return load();
  if (error.code === "RESOURCE_PENDING") {
    timer = setTimeout(() => load(Math.min(wait * 1.5, LONGEST_WAIT)), wait);
    total.textContent = "";
    return say("The query still runs. Its rows appear here as soon as it has finished.");
  }
  if (state === START && !grid?.rows && answer.rows.length) {
    isSample = true;
    await showSample();
  }
  return failed(error);
}

async function showSample() {
  rows = rowsOf(START, async () => asPage(answer), Math.max(answer.rows.length, 1));
  await rows.read(0);
  const count = answer.metadata?.total_count;
  const isWhole = count === answer.rows.length && answer.metadata.total_count_kind === "exact";
  if (answer.metadata?.status === "pending") say("The query still runs. Ask for the result again in a while.");
  else if (isWhole) say(answer.rows.length ? "" : "There are no rows.");
  else say(`${grouped(answer.rows.length)} of its rows are here. ${wayToAll()}`);
  if (rows.columns.length) return show(rows);
  return tools();
}

function wayToAll() {
  if (!answer.resource.url) return "The application that has its link gets all of them.";
  if (hasPages && host.can.openLinks) return "Open it in the browser to see all of them.";
  return `All of them are at ${answer.resource.url}.`;
}

async function show(mine) {
  body.hidden = false;
  grid ??= start();
  tell();
  drawBars(mine, state.group, body);
  tools();
  await grid.show(mine, mine.columns.map((column, index) => ({ ...column, index })), state);
  fit();
}

/** Whether a page had too many characters; the next ones have fewer rows then. */
function isTooLarge(error) {
  if (error.code !== "LIMIT_EXCEEDED" || size <= 1) return false;
  size = Math.ceil(size / 4);
  return true;
}

function failed(error) {
  if (error.name === "AbortError") return undefined;
  if (!isSample && isTooLarge(error)) return load();
  return say(`${error.message} ${error.hint ?? ""}`, again());
}

function again() {
  return make("button", { onclick: () => load() }, "Try again");
}

function change(changes) {
  if (isSample) return say(`Only some of its rows are here, as the tool answered them. ${wayToAll()}`);
  state = { ...state, ...changes };
  return load();
}

function tell() {
  const { total_count: count, total_count_kind: worth } = answer.metadata ?? {};
  const { rows: number, kind } = isSample ? { rows: count, kind: worth } : rows.total ?? {};
  total.textContent = totalInWords(number, kind, state.group);
}

function start() {
  return new Grid(body, {
    sort: sortBy,
    menu: async (column) => {
      const choice = await askForColumn({ ...column, hasZone: rows.hasZone(column.index) }, { canFilter: !state.group, isOnPage: false });
      if (choice?.sort) sortBy(column, choice.sort);
      if (choice?.filter) change({ filters: [...state.filters, choice.filter] });
    },
    cell: (value, column, index, cut) => showCell(value, column, index, cut, { canDownload: false }), // the sandbox of a host
    drawn: () => {},
    say: (text) => say(text),
  });
}

function sortBy(column, order, isAdded) {
  return change({ sort: sortedBy(state.sort, column, order, isAdded) });
}

// What a person can do.

function tools() {
  const { can } = host;
  const { displayMode = "inline", availableDisplayModes: modes = [] } = host.context;
  const other = displayMode === "fullscreen" ? "inline" : "fullscreen";
  const button = (text, onclick) => make("button", { onclick: () => Promise.resolve(onclick()).catch(failed) }, text);
  const isRead = !isSample && rows?.columns;
  keepFocus(bar, () => bar.replaceChildren(...[
    isRead && !state.group && searchField(columns, (conditions) => change({ filters: withSearch(state.filters, conditions) }), say),
    isRead && button(state.group ? "Change groups" : "Group", group),
    modes.includes(other) && button(other === "fullscreen" ? "Fullscreen" : "Leave fullscreen", () => showIn(other)),
    can.openLinks && hasPages && answer.resource?.url && button("Open in the browser", open),
    isRead && can.downloadFile && button("Save as CSV", save),
    can.updateModelContext && answer.resource && button("Tell the model", tellModel),
    ...chips(state, change),
  ].filter(Boolean)), grid);
}

async function group() {
  const grouping = await askForGroups(columns);
  if (grouping) await change({ group: grouping, sort: [] });
}

async function showIn(mode) {
  const { mode: displayMode } = await ask("ui/request-display-mode", { mode });
  adopt({ displayMode });
}

async function open() {
  const url = addressOf(state, answer.resource.url);
  const { isError } = await ask("ui/open-link", { url });
  if (isError) say(`The host did not open it. Its address is ${url}`);
}

/** What the person sees and selected; only when the person asks for it. */
async function tellModel() {
  const { uri, name } = answer.resource;
  const { sort, ...question } = bodyOf(state);
  const shownQuestion = { resource: uri, ...question, ...(sort?.length ? { order_by: orderBy(sort) } : {}) };
  const words = [
    `The person looks at ${uri} (${visible(name)}), ${total.textContent}.`,
    state.filters.length ? `Filtered: ${state.filters.map(inWords).join("; ")}.` : "",
    Object.keys(shownQuestion).length > 1 ? `query_result answers the same with ${JSON.stringify(shownQuestion)}.` : "",
    grid && rows.count ? selected(grid.selection()) : "",
  ];
  const { isError } = await ask("ui/update-model-context", { content: [{ type: "text", text: words.filter(Boolean).join(" ") }] });
  say(isError ? "The host did not take it." : "The model reads it with your next message.");
}

/** The selected cells in words, with their values where these are few. */
function selected({ x0, x1, y0, y1 }) {
  const some = grid.columns.slice(x0, x1 + 1);
  const where = `Selected: ${y0 === y1 ? `row ${y0 + 1}` : `rows ${y0 + 1} to ${y1 + 1}`} of ${some.map((column) => column.name).join(", ")}`;
  if ((y1 - y0 + 1) * some.length > MOST_VALUES) return `${where}.`;
  const values = Array.from({ length: y1 - y0 + 1 }, (_, index) => some.map((column) => rows.value(y0 + index, column.index)));
  return values.flat().includes(undefined) ? `${where}.` : `${where}: ${JSON.stringify(values)}.`;
}

/** The rows as a CSV file, as far as they fit. They are read by themselves: scrolling calls off what the grid reads. */
async function save() {
  if (rows.count > MOST_SAVED) return say(`At most ${grouped(MOST_SAVED)} rows are saved here. ${wayToAll()}`);
  const all = rowsOf(state, readPage);
  const page = size;
  const lines = [csvLine(rows.columns.map((column) => column.name))];
  for (let number = 0; number === 0 || number * page < all.count; number += 1) {
    say(`Reading row ${grouped(number * page + 1)} of ${grouped(rows.count)}…`);
    await all.read(number);
    lines.push(...all.pages.get(number).values.map((values) => csvLine(values, rows.columns)));
    if (lines.length > MOST_SAVED + 1) return say(`There are more than ${grouped(MOST_SAVED)} rows. ${wayToAll()}`);
  }
  const file = { uri: `file:///${encodeURIComponent(answer.resource.name)}.csv`, mimeType: "text/csv", text: `${lines.join("\r\n")}\r\n` };
  const result = await ask("ui/download-file", { contents: [{ type: "resource", resource: file }] });
  return say(result.isError ? "The file was not saved." : `Saved ${grouped(lines.length - 1)} rows.`);
}

connect(heard).then(() => {
  adopt(host.context);
  notify("ui/notifications/initialized");
  new ResizeObserver(report).observe(document.documentElement);
  new ResizeObserver(fit).observe(document.querySelector(".head"));
}, (error) => say(`The host did not accept this view: ${error.message}`));
