// The dialogs of a result's page. Each resolves to what was chosen, or to null when it was closed.

import { make, openDialog, option } from "./dom.js";
import { exact, grouped, isNumber, visible } from "./values.js";

const OPERATORS = [
  ["eq", "is"], ["ne", "is not"], ["lt", "is less than"], ["le", "is at most"], ["gt", "is greater than"], ["ge", "is at least"],
  ["contains", "contains"], ["starts_with", "starts with"], ["is_null", "is NULL"], ["not_null", "is not NULL"],
];
const ORDERED = new Set(["lt", "le", "gt", "ge"]);
const OF_TEXTS = new Set(["contains", "starts_with"]);
const WITHOUT_VALUE = new Set(["is_null", "not_null"]);
const UNORDERED = new Set(["boolean", "json", "array", "base64", "uuid", "any"]);
const FUNCTIONS = ["count", "sum", "avg", "min", "max", "count_distinct"];
const BUCKETS = ["year", "quarter", "month", "week", "day", "hour"];

/** The operators that a column can be filtered by. */
export function operatorsOf(column) {
  return OPERATORS.filter(([name]) => {
    if (column.encoding === "json" || column.encoding === "array") return WITHOUT_VALUE.has(name);
    if (OF_TEXTS.has(name)) return column.encoding === "text";
    return !(ORDERED.has(name) && UNORDERED.has(column.encoding));
  });
}

/** A condition as the body of /query has it. */
export function condition(column, op, text) {
  if (op === "is_null") return { column: column.name, op };
  if (op === "not_null") return { column: column.name, op: "is_null", value: false };
  return { column: column.name, op, value: valueOf(column, text) };
}

function valueOf(column, text) {
  if (column.encoding === "boolean") return text.trim().toLowerCase() === "true";
  if (isNumber(column)) {
    const number = Number(text);
    // Digits that a double would lose stay a text, which the server reads exactly.
    return text.trim() !== "" && Number.isFinite(number) && String(number) === text.trim() ? number : text.trim();
  }
  return text;
}

/** A condition in words, for its chip. */
export function inWords(filter) {
  if (filter.or) return `${filter.or.length} columns contain “${filter.or[0]?.value}”`;
  const { column, op, value } = filter;
  if (op === "is_null") return `${column} is ${value === false ? "not " : ""}NULL`;
  return `${column} ${Object.fromEntries(OPERATORS)[op]} ${visible(String(value))}`;
}

/** Resolves to what `accept` makes of the fields. Nothing is submitted: the sandbox of an App's host allows no forms. */
function ask(title, accept, ...fields) {
  return new Promise((resolve) => {
    let chosen = null;
    const form = make("form", { className: "fields" }, ...fields);
    const done = () => {
      chosen = accept(new FormData(form));
      dialog.close();
    };
    for (const button of form.querySelectorAll("button")) {
      button.type = "button";
      button.addEventListener("click", done);
    }
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.target.closest("button")) return;
      event.preventDefault();
      done();
    });
    const dialog = openDialog(title, form);
    dialog.addEventListener("close", () => resolve(chosen));
    form.querySelector("input, select, button")?.focus();
  });
}

function labelled(text, field) {
  return make("label", {}, make("span", {}, text), field);
}

/** What can be done with a column: { sort }, { filter }, { hide } or null. */
export function askForColumn(column, { canFilter, canHide = true }) {
  let action = null;
  const operators = operatorsOf(column);
  const operator = make("select", { name: "op" }, ...operators.map(([name, words]) => option(name, words)));
  const value = column.encoding === "boolean"
    ? make("select", { name: "value" }, option("true", "true"), option("false", "false"))
    : make("input", { name: "value", type: "text", autocomplete: "off", placeholder: placeholder(column) });
  const valueField = labelled("Value", value);
  operator.addEventListener("change", () => { valueField.hidden = WITHOUT_VALUE.has(operator.value); });
  valueField.hidden = WITHOUT_VALUE.has(operator.value);
  const button = (text, result) => make("button", { onclick: () => { action = result; } }, text);
  return ask(column.name, (data) => action ?? { filter: condition(column, data.get("op"), String(data.get("value") ?? "")) },
    make("div", { className: "tools" },
      button("Sort ascending", { sort: "asc" }), button("Sort descending", { sort: "desc" }), canHide ? button("Hide", { hide: true }) : null),
    ...(canFilter ? [make("h3", {}, "Filter"), labelled("Condition", operator), valueField,
      make("div", { className: "tools" }, make("button", { className: "main" }, "Filter"))] : []));
}

function placeholder(column) {
  return { date: "2026-01-31", datetime: "2026-01-31T12:00:00", time: "12:00:00", interval: "P1DT2H" }[column.encoding] ?? "";
}

/** Which columns are shown, and how: { hidden, isExact } or null. */
export function askForColumns(columns, hidden, isExact) {
  const boxes = columns.map((column) => make("label", { className: "check" },
    make("input", { type: "checkbox", name: "shown", value: column.name, checked: !hidden.includes(column.name) }), make("bdi", {}, column.name)));
  return ask("Columns",
    (data) => {
      const shown = data.getAll("shown");
      return { hidden: columns.map((column) => column.name).filter((name) => !shown.includes(name)), isExact: data.has("exact") };
    },
    make("div", { className: "list" }, ...boxes),
    make("label", { className: "check" }, make("input", { type: "checkbox", name: "exact", checked: isExact }), "Show exact values, as downloads have them"),
    make("div", { className: "tools" }, make("button", { className: "main" }, "Apply")));
}

/** How to group: { by, aggregates } or null. */
export function askForGroups(columns) {
  const named = (some, empty) => [option("", empty), ...some.map((column) => option(column.name, column.name))];
  const bucket = make("select", { name: "bucket" }, option("", "each value"), ...BUCKETS.map((name) => option(name, name)));
  const bucketField = labelled("By", bucket);
  const by = make("select", { name: "by" }, ...named(columns, "(all rows together)"));
  const update = () => { bucketField.hidden = !["date", "datetime"].includes(columns.find((column) => column.name === by.value)?.encoding); };
  by.addEventListener("change", update);
  update();
  return ask("Group",
    (data) => {
      const name = data.get("by");
      const function_ = data.get("function");
      const column = data.get("column");
      const key = name && !bucketField.hidden && data.get("bucket") ? { column: name, bucket: data.get("bucket") } : name;
      const more = function_ === "count" || !column ? [] : [{ function: function_, column }];
      return { by: name ? [key] : [], aggregates: [{ function: "count" }, ...more] };
    },
    labelled("Group by", by), bucketField,
    labelled("Compute", make("select", { name: "function" }, ...FUNCTIONS.map((name) => option(name, name.replace("_", " "))))),
    labelled("Of", make("select", { name: "column" }, ...named(columns, "(rows)"))),
    make("div", { className: "tools" }, make("button", { className: "main" }, "Group")));
}

/** A value in full. */
export function showCell(value, column, index) {
  const text = exact(value);
  const words = value === null ? "NULL" : text === "" ? "an empty text" : `${grouped(text.length)} characters`;
  openDialog(`${column.name}, row ${grouped(index + 1)}`,
    make("p", { className: "facts" }, `${column.type}: ${words}`),
    make("pre", { className: "cell", tabIndex: 0, dir: "auto" }, value === null ? "NULL" : text),
    make("div", { className: "tools" }, make("button", { onclick: (event) => copy(text, event.currentTarget) }, "Copy")));
}

/** Copy a text, and say on the button whether that was allowed: a host's sandbox may keep the clipboard shut. */
async function copy(text, button) {
  const isCopied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
  button.textContent = isCopied ? "Copied" : "Not allowed here: select the text";
}

export function confirmDeletion() {
  return ask("Delete this result?", () => true,
    make("p", {}, "Its links end with it. The data in the database stays."),
    make("div", { className: "tools" }, make("button", { className: "main" }, "Delete")));
}

/** The figures of each column. */
export function showProfile(profile) {
  const figure = (value) => (value === undefined ? "" : visible(exact(value ?? "NULL")));
  const head = ["Column", "NULL", "Distinct", "Lowest", "Highest", "Most frequent"];
  const rows = profile.columns.map((column) => make("tr", {},
    make("th", { scope: "row" }, make("bdi", {}, column.name)),
    ...[column.nulls, column.distinct, column.minimum, column.maximum,
      column.most_frequent?.slice(0, 3).map((each) => `${exact(each.value) || "NULL"} (${grouped(each.rows ?? each.count)})`).join(", ")]
      .map((value) => make("td", {}, column.masked ? "masked" : figure(value)))));
  const covers = profile.covers.of === "all" ? "All rows" : `The first ${grouped(profile.covers.rows ?? 0)} rows`;
  openDialog("Profile", make("p", { className: "facts" }, `${covers}${profile.complete ? "" : "; time ran out before everything was computed"}.`),
    make("div", { className: "rows", tabIndex: 0, role: "region", "aria-label": "Profile of the columns" }, make("table", {},
      make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))), make("tbody", {}, ...rows))));
}
