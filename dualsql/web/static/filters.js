// Conditions on rows: their words, those that a click on a value makes, and those of a search.

import { make } from "./dom.js";
import { isNumber, visible } from "./values.js";

// What the server has in its tables (dualsql/web/words.py). The listing has no result and asks for none of it.
export const VOCABULARY = JSON.parse(document.getElementById("result")?.dataset.vocabulary ?? "{}");
const { conditions: CONDITIONS = [], buckets: BUCKETS = [] } = VOCABULARY;

// The operators that a click makes, by what it takes them for.
const SAME = "eq";
const AMONG = "in";
const NOT_AMONG = "not_in";
const NULL = "is_null";
const FOUND = "contains_any_case";
const FROM = "ge";
const BEFORE = "lt";
const DAY = /^\d{4}-\d\d-\d\d$/;
const START = /^(\d{4,}-\d\d-\d\d)(T[\d:.]+)?(.*)$/; // of a bucket

export function choiceNamed(name) {
  return CONDITIONS.find((choice) => choice.name === name);
}

export function bucketNamed(name) {
  return BUCKETS.find((bucket) => bucket.name === name);
}

/** The choice of a dialog that makes a condition. */
export function choiceOf({ op, value }) {
  return CONDITIONS.find((each) => each.op === op && (each.takes !== "flag" || (each.value ?? true) === (value ?? true)));
}

/** The column that a condition is about; undefined where it is about several. */
export function columnOf(filter) {
  const names = new Set((filter.or ?? filter.and ?? [filter]).map((part) => part.column));
  return names.size === 1 ? [...names][0] : undefined;
}

/** What clicks on values chose in a column: { values, isExcluded }; null where another condition is there. */
function clickedValues(filter) {
  const parts = filter.or ?? [filter];
  const nulls = parts.filter((part) => part.op === NULL);
  const [rest, ...more] = parts.filter((part) => part.op !== NULL);
  if (more.length || nulls.length > 1) return null;
  const list = rest === undefined ? [] : [rest.value].flat();
  if (rest?.op === NOT_AMONG) return { values: nulls.length ? list : [...list, null], isExcluded: true };
  if (rest === undefined) return { values: [null], isExcluded: nulls[0].value === false };
  return rest.op === SAME || rest.op === AMONG ? { values: nulls.length ? [...list, null] : list, isExcluded: false } : null;
}

/** A condition of these values of a column, null among them, or of all others. Excluding some values keeps NULLs. */
function conditionOf(column, values, isExcluded) {
  const list = values.filter((value) => value !== null);
  const hasNull = list.length < values.length;
  if (!list.length) return { column, op: NULL, value: !isExcluded };
  const op = isExcluded ? NOT_AMONG : list.length > 1 ? AMONG : SAME;
  const among = { column, op, value: op === SAME ? list[0] : list };
  return hasNull === isExcluded ? among : { or: [among, { column, op: NULL, value: true }] };
}

/** The values of a column that are chosen or excluded by clicks. */
export function chosenIn(filters, column) {
  const clicked = filters.map((filter) => (columnOf(filter) === column ? clickedValues(filter) : null)).find(Boolean);
  return clicked ?? { values: [], isExcluded: false };
}

/** The filters after a click on a value: it is added, or taken away where it is there. */
export function withValue(filters, column, value, isExcluded) {
  const others = filters.filter((filter) => columnOf(filter) !== column || clickedValues(filter) === null);
  const before = chosenIn(filters, column);
  const selected = before.isExcluded === isExcluded ? before.values : [];
  const values = selected.includes(value) ? selected.filter((one) => one !== value) : [...selected, value];
  return values.length ? [...others, conditionOf(column, values, isExcluded)] : others;
}

/** The filters without those of one column. */
export function withoutColumn(filters, column) {
  return filters.filter((filter) => columnOf(filter) !== column);
}

/** The keys of groups, which a question may write as names, as { column, bucket }. */
export function keysOf({ by }) {
  return by.map((key) => (typeof key === "string" ? { column: key } : key));
}

/** The conditions of a group's rows, from its values of the keys. */
export function conditionsOfGroup(group, values) {
  return keysOf(group).map(({ column, bucket }, index) => (bucket && values[index] !== null ? inBucket(column, bucket, values[index]) : conditionOf(column, [values[index]], false)));
}

/** A bucket that begins at `start`, as the server writes it. Infinity, which some databases have for a day, is its own. */
export function inBucket(column, bucket, start) {
  const parts = START.exec(start);
  if (!parts) return conditionOf(column, [start], false);
  const [, day, time = "", zone = ""] = parts;
  const end = new Date(`${day}${time || "T00:00:00"}Z`);
  const { months, hours } = bucketNamed(bucket);
  end.setUTCMonth(end.getUTCMonth() + months);
  end.setUTCHours(end.getUTCHours() + hours);
  const iso = end.toISOString();
  return { and: [{ column, op: FROM, value: start }, { column, op: BEFORE, value: time ? `${iso.slice(0, 19)}${zone}` : iso.slice(0, 10) }] };
}

/** How a search looks into columns: texts that contain the text in any case, and numbers and days that are it. */
function searched(columns, text) {
  const isNumeric = text.trim() !== "" && Number.isFinite(Number(text));
  const texts = columns.filter((column) => column.encoding === "text");
  const equal = columns.filter((column) => (isNumber(column) ? isNumeric && isExactNumber(column, text) : column.encoding === "date" && DAY.test(text)));
  return [
    ...texts.map(({ name }) => ({ column: name, op: FOUND, value: text })),
    ...equal.map((column) => ({ column: column.name, op: SAME, value: isNumber(column) ? Number(text) : text })),
  ];
}

function isExactNumber(column, text) {
  return Number.isSafeInteger(Number(text)) || !column.encoding.startsWith("integer");
}

/** The filters with a search in the place of an earlier one. */
export function withSearch(filters, conditions) {
  return [...filters.filter((filter) => searchIn(filter) === undefined), { or: conditions }];
}

/**
 * The field of a search. It is no form, which the sandbox of an App's host would not submit.
 * @param {function?} ask takes what is written where that is a question; the rest is searched for
 * @param {string?} example of a question
 */
export function searchField(columns, search, say, { ask = () => false, example } = {}) {
  const names = columns.filter((column) => column.encoding === "text").map(({ name }) => name);
  const numbers = columns.filter(isNumber).map(({ name }) => name);
  const where = [names.length && `texts in any case: ${names.join(", ")}`, numbers.length && `numbers: ${numbers.join(", ")}`].filter(Boolean).join("; ");
  return make("input", {
    type: "search", title: example ? `${where}\nOr ask: ${example}` : where, "aria-label": `Search (${where})`,
    placeholder: `Search ${names.slice(0, 2).join(", ") || numbers.slice(0, 2).join(", ")}${columns.length > 2 ? "…" : ""}`,
    onkeydown: ({ key, target: { value } }) => {
      if (key !== "Enter" || !value || ask(value)) return;
      const conditions = searched(columns, /^"(.+)"$/.exec(value)?.[1] ?? value);
      if (conditions.length) search(conditions);
      else say("No column has texts, and this is no number.");
    },
  });
}

/** What was searched for; undefined for another condition. */
export function searchIn(filter) {
  const parts = filter.or ?? [];
  return parts.some((part) => part.op === FOUND) && new Set(parts.map((part) => String(part.value))).size === 1 ? String(parts[0].value) : undefined;
}

/** A condition in words. */
export function inWords(filter) {
  const text = searchIn(filter);
  if (text !== undefined) return `${filter.or.length === 1 ? filter.or[0].column : `one of ${filter.or.length} columns`} has “${visible(text)}”`;
  const byClick = columnOf(filter) === undefined ? null : clickedValues(filter);
  if (filter.or && byClick) return wordsOf(columnOf(filter), byClick);
  if (filter.or) return filter.or.map(inWords).join(" or ");
  if (filter.and) return rangeInWords(filter.and) ?? filter.and.map(inWords).join(" and ");
  if (filter.not) return `not ${inWords(filter.not)}`;
  const { column, op, value } = filter;
  const choice = choiceOf(filter) ?? choiceNamed(op);
  if (choice?.takes === "flag") return `${column} ${choice.words}`;
  const values = [value].flat().map(valueInWords);
  return `${column} ${choice?.words ?? op} ${values.join(choice?.takes === "two" ? " and " : ", ")}`;
}

/** The range that a bucket is; undefined for other conditions. */
function rangeInWords([from, before, ...more]) {
  if (more.length || from?.op !== FROM || before?.op !== BEFORE || from.column !== before.column) return undefined;
  return `${from.column} from ${from.value} to before ${before.value}`;
}

function wordsOf(column, { values, isExcluded }) {
  const words = choiceNamed(isExcluded ? NOT_AMONG : AMONG).words;
  return `${column} ${words} ${values.map(valueInWords).join(", ")}`;
}

/** A value of a condition; an empty text has no sign of its own. */
function valueInWords(value) {
  if (value === null) return "NULL";
  return value === "" ? "an empty text" : visible(String(value));
}

/**
 * A chip for each filter and for the groups of a question: it is taken away by its ✕, and changed by a click on its words.
 * @param {function?} edit of a filter; without it, chips are not changed
 */
export function chips({ filters, group }, change, edit) {
  const removal = (text, changes, words) => make("button", { className: words ? "chip" : "remove", onclick: () => change(changes), "aria-label": `Remove: ${text}` },
    words ? make("bdi", {}, text) : "", words ? " ✕" : "✕");
  const chip = (filter) => {
    const text = inWords(filter);
    const changes = { filters: filters.filter((other) => other !== filter) };
    const names = [...new Set((filter.or ?? filter.and ?? [filter]).map((part) => part.column))].join(", ");
    if (!edit) return removal(text, changes, true);
    return make("span", { className: "chip", title: names },
      make("button", { onclick: () => edit(filter), "aria-label": `Change: ${text}` }, make("bdi", {}, text)), removal(text, changes, false));
  };
  return [...filters.map(chip), ...(group ? [removal("Back to the rows", { group: null, sort: [] }, true)] : [])];
}
