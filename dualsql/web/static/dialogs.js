// The dialogs of a result's page. Each resolves to what was chosen, or to null when it was closed.

import { copyButton, downloadButton, make, openDialog, option } from "./dom.js";
import { VOCABULARY, choiceNamed, choiceOf } from "./filters.js";
import { sentenceOf } from "./rows.js";
import { digitsOf, exact, grouped, isNumber, isTime, shown, visible, wholeText } from "./values.js";

const { conditions: CONDITIONS, kinds: KINDS, aggregates: AGGREGATES, buckets: BUCKETS } = VOCABULARY;
const { maximum_groups: MOST_KEYS, maximum_aggregates: MOST_AGGREGATES } = VOCABULARY;
const INPUTS = { date: { type: "date" }, datetime: { type: "datetime-local", step: "1" }, time: { type: "time", step: "1" } };

/** The conditions that a column can be filtered by. */
function conditionsOf({ encoding }) {
  return CONDITIONS.filter(({ kind, takes }) => {
    if (encoding === "boolean" && takes === "several") return false; // of two values
    if (encoding === "any" && kind === "order") return false; // what is typed is a text, and the values may be numbers
    return kind === "null" || KINDS[encoding]?.includes(kind);
  });
}

/** A condition as the body of /query has it. */
function condition(column, { op, takes, value }, texts) {
  if (takes === "flag") return { column: column.name, op, value };
  const values = texts.map((text) => valueOf(column, text));
  return { column: column.name, op, value: takes === "one" ? values[0] : values };
}

/** A value of a condition as its field has it. */
function textOf(column, value) {
  if (column.encoding !== "datetime" || !column.hasZone) return String(value);
  const moment = new Date(value);
  return new Date(moment - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** A text that was written, as a value of a condition. */
export function valueOf(column, text) {
  if (column.encoding === "boolean") return text === "true";
  if (column.encoding === "datetime") return column.hasZone ? new Date(text).toISOString() : text.length === 16 ? `${text}:00` : text;
  if (column.encoding === "time") return text.length === 5 ? `${text}:00` : text;
  if (isNumber(column)) {
    const number = Number(text);
    // Digits that a double would lose stay a text, which the server reads exactly.
    return text.trim() !== "" && Number.isFinite(number) && String(number) === text.trim() ? number : text.trim();
  }
  return text;
}

/** Resolves to what `accept` makes of the fields. Nothing is submitted: the sandbox of an App's host allows no forms. */
function ask(title, accept, ...fields) {
  return new Promise((resolve) => {
    let answer = null;
    const form = make("form", { className: "fields" }, ...fields);
    const done = (event) => {
      if (!event?.currentTarget.dataset.free && !form.reportValidity()) return;
      answer = accept(new FormData(form));
      dialog.close();
    };
    for (const button of form.querySelectorAll("button")) {
      button.type = "button";
      button.addEventListener("click", done);
    }
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.target.closest("button, textarea")) return;
      event.preventDefault();
      const button = event.target.dataset.button && form.querySelector(`#${event.target.dataset.button}`);
      if (button) button.click();
      else done();
    });
    const dialog = openDialog(title, form);
    dialog.addEventListener("close", () => resolve(answer));
    form.querySelector("input, select, button")?.focus();
  });
}

export function labelled(text, field) {
  return make("label", {}, make("span", {}, text), field);
}

/**
 * What can be done with a column: { sort }, { filter }, { hide }, { width }, { values }, { place } from 1 on, { freeze } or null.
 * @param {object?} options canFilter; isOnPage: it can be hidden, moved and measured, and its values listed; filter: the
 *   condition to change
 */
export function askForColumn(column, { canFilter, isOnPage = true, filter }) {
  let action = null;
  const button = (text, result, id) => make("button", { id, "data-free": "yes", onclick: () => { action = result(); } }, text);
  const width = make("input", { type: "number", className: "short", min: "40", max: "2000", value: String(column.width ?? ""), "aria-label": "Width in pixels", "data-button": "set-width" });
  const place = make("input", { type: "number", className: "short", min: "1", max: String(column.places), value: String(column.place), "aria-label": "Position", "data-button": "set-place" });
  const values = canFilter ? filterFields(column, filter) : null;
  return ask(visible(column.name), (data) => action ?? { filter: condition(column, choiceNamed(data.get("op")), values.read(data)) },
    filter ? null : make("div", { className: "tools" },
      button("Sort ascending", () => ({ sort: "asc" })), button("Sort descending", () => ({ sort: "desc" })),
      ...(isOnPage ? [
        canFilter && button("Values", () => ({ values: true })), button("Hide", () => ({ hide: true })),
        button(column.isFrozen ? "Unfreeze" : "Freeze", () => ({ freeze: true })),
      ] : [])),
    isOnPage && !filter ? make("div", { className: "tools" }, width, button("Set width", () => ({ width: Number(width.value) || null }), "set-width"),
      place, button("Move to position", () => ({ place: Math.max(1, Number(place.value)) }), "set-place")) : null,
    ...(values ? [make("h3", {}, "Filter"), ...values.fields, make("div", { className: "tools" }, make("button", { className: "main" }, "Filter"))] : []));
}

/** The fields of a condition, by the type of the column, and what reads their values. */
function filterFields(column, filter) {
  const operator = make("select", { name: "op" }, ...conditionsOf(column).map(({ name, words, ofTimes }) => option(name, (column.encoding in INPUTS && ofTimes) || words)));
  const before = filter && choiceOf(filter);
  const valuesBefore = before && before.takes !== "flag" ? [filter.value].flat().map((value) => textOf(column, value)) : [];
  if (before) operator.value = before.name;
  const input = (name, value = "") => {
    const field = column.encoding === "boolean" ? make("select", { name }, option("true", "true"), option("false", "false"))
      : make("input", { name, autocomplete: "off", placeholder: column.encoding === "interval" ? "P1DT2H" : "",
        ...(isNumber(column) ? { inputMode: "decimal" } : {}), ...(INPUTS[column.encoding] ?? { type: "text" }) });
    if (value) field.value = value;
    return field;
  };
  const first = labelled("Value", input("value", valuesBefore[0]));
  const second = labelled("and", input("end", valuesBefore[1]));
  const several = labelled("Values, one a line", make("textarea", { name: "values", rows: 4, spellcheck: false, value: valuesBefore.join("\n") }));
  const update = () => {
    const { takes } = choiceNamed(operator.value);
    first.hidden = takes === "several" || takes === "flag";
    second.hidden = takes !== "two";
    several.hidden = takes !== "several";
    // A text may be empty; anything else needs a value.
    first.lastChild.required = !first.hidden && column.encoding !== "text";
    second.lastChild.required = !second.hidden;
  };
  operator.addEventListener("change", update);
  update();
  return {
    fields: [labelled("Condition", operator), first, second, several],
    read: (data) => ({ several: data.get("values").split(/\r?\n/).filter(Boolean), two: [data.get("value"), data.get("end")] }[choiceNamed(data.get("op")).takes]
      ?? [String(data.get("value") ?? "")]),
  };
}

/** Which columns are shown, and how: { hidden, isExact } or null. */
export function askForColumns(columns, hidden, isExact) {
  const boxes = columns.map((column) => make("label", { className: "check" },
    make("input", { type: "checkbox", name: "shown", value: column.name, checked: !hidden.includes(column.name) }), make("bdi", {}, visible(column.name))));
  return ask("Columns",
    (data) => {
      const shown = data.getAll("shown");
      return { hidden: columns.map((column) => column.name).filter((name) => !shown.includes(name)), isExact: data.has("exact") };
    },
    make("div", { className: "list" }, ...boxes),
    make("label", { className: "check" }, make("input", { type: "checkbox", name: "exact", checked: isExact }), "Show exact values, as downloads have them"),
    make("div", { className: "tools" }, make("button", { className: "main" }, "Apply")));
}

/** How to group: { by, aggregates } or null; `group` is what is there. */
export function askForGroups(columns, group) {
  const columnOptions = (some, empty) => [option("", empty), ...some.map((column) => option(column.name, visible(column.name)))];
  const keys = growing((index) => groupKey(columns, index, columnOptions), group?.by ?? [], MOST_KEYS);
  const measures = growing((index) => groupMeasure(columns, index, columnOptions), (group?.aggregates ?? []).filter((each) => each.column), MOST_AGGREGATES);
  return ask("Group", () => ({ by: distinct(keys.fields), aggregates: [{ function: "count" }, ...distinct(measures.fields)] }),
    keys.place, make("h3", {}, "Of each group, its number of rows and"), measures.place,
    make("div", { className: "tools" }, make("button", { className: "main" }, "Group")));
}

/** Fields one below the other: when the last one is filled in, another is added. */
function growing(makeField, initial, most) {
  const fields = [];
  const place = make("div", { className: "fields", onchange: () => grow() });
  const grow = () => {
    if (fields.length && (!fields.at(-1).read() || fields.length >= most)) return;
    const field = makeField(fields.length);
    if (initial.length > fields.length) field.set(initial[fields.length]);
    fields.push(field);
    place.append(field.element);
    grow();
  };
  grow();
  return { fields, place };
}

function distinct(fields) {
  const values = fields.map((each) => each.read()).filter(Boolean);
  return values.filter((one, index) => values.findIndex((other) => JSON.stringify(other) === JSON.stringify(one)) === index);
}

function groupMeasure(columns, index, columnOptions) {
  const suffix = index || "";
  const compute = make("select", { name: `function${suffix}` }, ...AGGREGATES.map((name) => option(name, name.replaceAll("_", " "))));
  const of = make("select", { name: `column${suffix}` }, ...columnOptions(columns, index ? "(nothing more)" : "(rows)"));
  return {
    element: make("div", { className: "beside" }, labelled("Compute", compute), labelled("Of", of)),
    read: () => of.value && { function: compute.value, column: of.value },
    set: ({ function: name, column }) => { compute.value = name; of.value = column; },
  };
}

function groupKey(columns, index, columnOptions) {
  const by = make("select", { name: `by${index}` }, ...columnOptions(columns, index ? "(nothing more)" : "(all rows together)"));
  const bucket = make("select", { name: `bucket${index}` }, option("", "each value"), ...BUCKETS.map(({ name }) => option(name, name)));
  const bucketField = labelled("By", bucket);
  const update = () => { bucketField.hidden = !isTime(columns.find((column) => column.name === by.value)); };
  by.addEventListener("change", update);
  update();
  return {
    element: make("div", { className: "beside" }, labelled(index ? "then by" : "Group by", by), bucketField),
    read: () => by.value && (!bucketField.hidden && bucket.value ? { column: by.value, bucket: bucket.value } : by.value),
    set: (key) => { by.value = key.column ?? key; bucket.value = key.bucket ?? ""; update(); },
  };
}

/** The column of a profile with the digits that its figures are shown with. */
function withDigits(column, columns) {
  const { encoding } = columns.find(({ name }) => name === column.name) ?? {};
  const values = [column.minimum, column.maximum, ...(column.most_frequent ?? []).map(({ value }) => value)].filter((value) => value !== undefined);
  return { ...column, digits: digitsOf({ encoding }, values) };
}

const LAID_OUT = 10_000; // characters: Chromium takes 40 s for 100,000 Chinese ones

/**
 * A value, as far as a browser lays it out in time. Copy and Download give all of it.
 * @param {object?} cut of a value of which only the beginning is here: its characters, and read() for the whole
 */
export function showCell(value, column, index, cut, { canDownload = true } = {}) {
  let whole = cut ? null : exact(value);
  const read = async () => { whole ??= exact(await cut.read()); return whole; };
  const facts = make("p", { className: "facts" });
  const body = make("pre", { className: "cell", tabIndex: 0, dir: "auto" });
  const show = (text, characters) => {
    const words = value === null ? "NULL" : text === "" ? "an empty text" : `${grouped(characters)} characters`;
    facts.textContent = `${column.type}: ${words}${characters > LAID_OUT ? `, of which the first ${grouped(LAID_OUT)} are shown` : ""}`;
    body.textContent = value === null ? "NULL" : wholeText(text.slice(0, LAID_OUT));
  };
  show(exact(value), cut?.characters ?? exact(value).length);
  if (cut) read().then((text) => show(text, cut.characters), (error) => facts.append(` (the whole is not here: ${sentenceOf(error)})`));
  openDialog(`${visible(column.name)}, row ${grouped(index + 1)}`, facts, body,
    make("div", { className: "tools" }, copyButton(read),
      canDownload && value !== null ? downloadButton(read, `${column.name}, row ${index + 1}.txt`) : null));
}

export function confirmDeletion() {
  return ask("Delete this result?", () => true,
    make("p", {}, "Its links end with it. The data in the database stays."),
    make("div", { className: "tools" }, make("button", { className: "main" }, "Delete")));
}

/** The figures of each column of these rows, in words. Where they are of some of them, `again` tries all. */
export function showProfile(profile, { rows: noun, again, columns }) {
  const cellOf = (column, value) => shown(value, { ...columns.find(({ name }) => name === column.name), digits: column.digits }, false);
  const figure = (column, value) => cellOf(column, value).text;
  const head = ["Column", "NULL", "Distinct", "Lowest", "Highest", "Most frequent"];
  const about = (column, name) => (column.estimated?.statistics.includes(name) ? "about " : "");
  const distinct = (column) => (column.distinct === undefined ? "" : `${column.distinct_kind === "approximate" ? "about " : ""}${grouped(column.distinct)}`);
  const rows = profile.columns.map((each) => withDigits(each, columns)).map((column) => make("tr", {},
    make("th", { scope: "row" }, make("bdi", {}, visible(column.name))),
    ...[
      { text: column.nulls === undefined ? "" : grouped(column.nulls) }, { text: distinct(column) },
      ...[column.minimum, column.maximum].map((value) => (value === undefined ? { text: "" } : cellOf(column, value))),
      { text: column.most_frequent?.slice(0, 3).map((each) => `${figure(column, each.value)} (${about(column, "most_frequent")}${grouped(each.count)})`).join("; ") ?? "" },
    ].map(({ text, whole }, place) => make("td", { className: place < 2 ? "number" : "", title: whole }, column.masked ? "masked" : text))));
  const number = grouped(profile.covers.rows ?? 0);
  const covers = profile.covers.of === "all" ? `All ${number} ${noun}` : `A sample: the first ${number} ${noun}, since all take longer`;
  const isWhole = profile.complete || profile.covers.of !== "all";
  const dialog = openDialog("Profile", make("p", { className: "facts" },
    `${covers}${isWhole ? "" : "; time ran out before everything was counted"}.${profile.left_out ? ` ${profile.left_out} columns are left out.` : ""} `,
    again && make("button", { onclick: () => { dialog.close(); again(); } }, "Try all of them")),
    make("div", { className: "rows", tabIndex: 0, role: "region", "aria-label": "Profile of the columns" }, make("table", {},
      make("thead", {}, make("tr", {}, ...head.map((text, place) => make("th", { scope: "col", className: place === 1 || place === 2 ? "number" : "" }, text)))), make("tbody", {}, ...rows))));
}
