// The MCP App: the grid of a result inside a host. It speaks JSON-RPC with the host (MCP Apps, 2026-01-26), and reads rows
// by a tool of the server, since a host lets no request leave its frame.

import { bars } from "./bars.js";
import { askForColumn, askForGroups, inWords, showCell } from "./dialogs.js";
import { make } from "./dom.js";
import { Grid } from "./grid.js";
import { Problem, Rows, isAsked } from "./rows.js";
import { exact, grouped, isNumber, shown } from "./values.js";

const PROTOCOL = "2026-01-26";
const PAGE_TOOL = "result_page";
const PAGE = 200;
const HEIGHT = 480; // pixels inline
const MOST_SAVED = 100_000; // rows of a file

const hasPages = document.getElementById("result").dataset.pages === "yes";
const head = document.getElementById("name");
const total = document.getElementById("total");
const message = document.getElementById("message");
const bar = document.getElementById("tools");

// The host.

const waiting = new Map();
let sent = 0;
let host = { hostCapabilities: {}, hostContext: {} };

function post(content) {
  window.parent.postMessage({ jsonrpc: "2.0", ...content }, "*");
}

function ask(method, params) {
  sent += 1;
  const id = sent;
  post({ id, method, params });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

window.addEventListener("message", (event) => {
  const { data } = event;
  if (event.source !== window.parent || data?.jsonrpc !== "2.0") return;
  if (data.method === undefined) {
    const { resolve, reject } = waiting.get(data.id) ?? {};
    waiting.delete(data.id);
    if (data.error) reject?.(new Error(data.error.message));
    else resolve?.(data.result);
  } else if (data.id !== undefined) answer(data);
  else heard(data.method, data.params ?? {});
});

function answer({ id, method }) {
  if (method === "ui/resource-teardown") rows?.stop();
  if (method === "ping" || method === "ui/resource-teardown") post({ id, result: {} });
  else post({ id, error: { code: -32601, message: "Method not found" } });
}

function heard(method, params) {
  if (method === "ui/notifications/tool-result") take(params);
  if (method === "ui/notifications/tool-cancelled") say("The call was cancelled.");
  if (method === "ui/notifications/host-context-changed") adopt(params);
}

function adopt(context) {
  host.hostContext = { ...host.hostContext, ...context };
  if (context.theme) document.documentElement.dataset.theme = context.theme;
  document.documentElement.classList.toggle("fullscreen", host.hostContext.displayMode === "fullscreen");
  grid?.draw();
}

// The result.

const START = { sort: [], filters: [], group: null };
let resource = null;
let state = START;
let rows = null;
let columns = [];
let grid = null;

function say(text, ...actions) {
  message.replaceChildren(...(text ? [text, " ", ...actions] : []));
}

/** The tool's answer: a dual response, or something else, of which the host shows the text. */
function take(result) {
  const content = result.structuredContent ?? {};
  if (!content.resource?.uri) return say(content.message ?? result.content?.find((block) => block.type === "text")?.text ?? "There are no rows to show.");
  ({ resource } = content);
  head.textContent = resource.name;
  state = START;
  return load();
}

/** A page of rows, by the tool: what the REST endpoint answers, under the same rights. */
async function readPage(address, { body, signal }) {
  const result = await ask("tools/call", { name: PAGE_TOOL, arguments: { resource: resource.uri, request: body } });
  signal.throwIfAborted();
  const content = result.structuredContent ?? {};
  if (result.isError) throw new Problem(0, content.message ? content : { message: result.content?.[0]?.text });
  return content;
}

async function load() {
  rows?.stop();
  const mine = new Rows("", state, {
    limit: PAGE,
    send: readPage,
    format: (values, described) => values.map((value, index) => shown(value, described[index], false)),
    changed: () => { if (mine === rows) { tell(); grid?.draw(); } },
    failed: (error) => { if (mine === rows) failed(error); },
  });
  rows = mine;
  say("Reading…");
  try {
    await mine.read(0);
  } catch (error) {
    return failed(error);
  }
  if (mine !== rows || !mine.columns) return undefined;
  say("");
  if (!isAsked(state)) ({ columns } = mine);
  grid ??= start();
  const order = Object.fromEntries(state.sort.map((key) => [key.field, key.order]));
  await grid.show(mine, mine.columns.map((column, index) => ({ ...column, index, order: order[column.name] })));
  chart(mine);
  tools();
  return undefined;
}

function failed(error) {
  if (error.name === "AbortError") return;
  say(`${error.message} ${error.hint ?? ""}`, make("button", { onclick: load }, "Try again"));
}

function change(changes) {
  state = { ...state, ...changes };
  return load();
}

function tell() {
  const { rows: number, kind } = rows.total ?? {};
  const words = { estimated: "about ", capped: "at least " }[kind] ?? "";
  total.textContent = number === null || number === undefined ? "rows not counted" : `${words}${grouped(number)} ${state.group ? "groups" : "rows"}`;
}

function start() {
  return new Grid(document.getElementById("rows"), {
    sort: (column, isAdded) => sortBy(column, column.order === "asc" ? "desc" : column.order ? undefined : "asc", isAdded),
    menu: async (column) => {
      const chosen = await askForColumn(column, { canFilter: !state.group, canHide: false });
      if (chosen?.sort) sortBy(column, chosen.sort, false);
      if (chosen?.filter) change({ filters: [...state.filters, chosen.filter] });
    },
    cell: showCell,
    drawn: () => {},
    said: (text) => say(text),
  });
}

function sortBy(column, order, isAdded) {
  const others = isAdded ? state.sort.filter((key) => key.field !== column.name) : [];
  return change({ sort: order ? [...others, { field: column.name, order }] : others });
}

function chart(mine) {
  document.getElementById("chart")?.remove();
  const value = mine.columns.findLastIndex((column) => isNumber(column));
  if (!state.group?.by.length || !mine.count || value < 1) return;
  const marks = Array.from({ length: Math.min(mine.count, 50) }, (_, index) => ({ label: mine.row(index)?.[0].text ?? "", value: Number(mine.value(index, value)) }));
  document.getElementById("rows").before(bars(marks, mine.columns[value].name, mine.columns[0].name));
}

function tools() {
  const can = host.hostCapabilities;
  const modes = host.hostContext.availableDisplayModes ?? [];
  const button = (text, onclick) => make("button", { onclick: () => Promise.resolve(onclick()).catch(failed) }, text);
  bar.replaceChildren(...[
    button(state.group ? "Change groups" : "Group", async () => {
      const chosen = await askForGroups(columns);
      if (chosen) change({ group: chosen, sort: [] });
    }),
    modes.includes("fullscreen") && button("Fullscreen", async () => adopt({ displayMode: (await ask("ui/request-display-mode", { mode: "fullscreen" })).mode })),
    can.openLinks && hasPages && button("Open in the browser", () => ask("ui/open-link", { url: resource.url })),
    can.downloadFile && button("Save as CSV", save),
    can.updateModelContext && button("Tell the model", tellModel),
    ...state.filters.map((filter, index) => chip(inWords(filter), () => change({ filters: state.filters.filter((_, other) => other !== index) }))),
    state.group && chip("Back to the rows", () => change({ group: null, sort: [] })),
  ].filter(Boolean));
}

function chip(text, onclick) {
  return make("button", { className: "chip", onclick, "aria-label": `Remove: ${text}` }, make("bdi", {}, text), " ✕");
}

/** What the person did, in words; only when the person asks for it. */
async function tellModel() {
  const { y0, y1 } = grid.selection();
  const words = [
    `The person looks at ${resource.uri} (${resource.name}).`,
    state.filters.length ? `Filtered: ${state.filters.map(inWords).join("; ")}.` : "",
    state.group ? `Grouped by ${state.group.by.map((key) => key.column ?? key).join(", ") || "nothing"}.` : "",
    state.sort.length ? `Sorted by ${state.sort.map((key) => `${key.field} ${key.order}`).join(", ")}.` : "",
    `${total.textContent}. Selected: rows ${y0 + 1} to ${y1 + 1}.`,
  ];
  await ask("ui/update-model-context", { content: [{ type: "text", text: words.filter(Boolean).join(" ") }] });
  say("The model is told.");
}

/** The rows as a CSV file, as far as they fit. */
async function save() {
  const cells = (values) => values.map((value) => (/[",\r\n]/.test(exact(value)) ? `"${exact(value).replaceAll('"', '""')}"` : exact(value))).join(",");
  const lines = [cells(rows.columns.map((column) => column.name))];
  if (rows.count > MOST_SAVED) return say(`At most ${grouped(MOST_SAVED)} rows are saved here. Open the result in the browser for all of them.`);
  for (let number = 0; number * PAGE < rows.count; number += 1) {
    say(`Reading row ${grouped(number * PAGE + 1)} of ${grouped(rows.count)}…`);
    if (!rows.pages.has(number)) await rows.read(number);
    lines.push(...rows.pages.get(number).values.map(cells));
  }
  const file = { uri: `file:///${encodeURIComponent(resource.name)}.csv`, mimeType: "text/csv", text: lines.join("\r\n") };
  const result = await ask("ui/download-file", { contents: [{ type: "resource", resource: file }] });
  return say(result.isError ? "The file was not saved." : `Saved ${grouped(lines.length - 1)} rows.`);
}

ask("ui/initialize", { appInfo: { name: "dualsql", version: "1" }, appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] }, protocolVersion: PROTOCOL }).then((found) => {
  host = found;
  adopt(host.hostContext ?? {});
  post({ method: "ui/notifications/initialized", params: {} });
  post({ method: "ui/notifications/size-changed", params: { height: HEIGHT } });
});
