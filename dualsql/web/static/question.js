// A short question that is written into the search field: conditions, groups, aggregates, an order and a chart.
//
//   month=7 by origin, dest avg arr_delay     carrier=UA,AA delay>30 sort -delay     by departure:month chart
//
// A text in double quotes is a value or a name with blanks; alone, it is searched for.

import { VOCABULARY, inBucket } from "./filters.js";
import { valueOf } from "./dialogs.js";
import { isNumber, isTime } from "./values.js";

const { conditions: CONDITIONS, aggregates: AGGREGATES, buckets: BUCKETS } = VOCABULARY;
const TOKENS = /"((?:[^"]|"")*)"|([=!<>]+)|(,)|([^\s=!<>,"]+)/g;
const WORDS = { by: "by", sort: "sort", chart: "chart" };
const EXPECTED = new Set(["is", "has"]); // behind a text, too
const DAY = 10; // characters of a day
const ROWS = { function: "count" };
const LONGEST = 2000; // characters of a question
const TRUTH = { true: true, yes: true, t: true, 1: true, false: false, no: false, f: false, 0: false };

export const EXAMPLE = "month=7 by origin, dest avg delay";

function tokensOf(text) {
  return [...text.matchAll(TOKENS)].map(([, quoted, sign, comma, word]) => ({ text: quoted?.replaceAll('""', '"') ?? sign ?? comma ?? word, isQuoted: quoted !== undefined, isComma: comma !== undefined }));
}

/** Reads the tokens from the first to the last one. */
class Reader {
  constructor(text, columns) {
    this.tokens = tokensOf(text);
    this.columns = columns;
    this.at = 0;
  }

  get next() {
    return this.tokens[this.at];
  }

  get isAtEnd() {
    return this.at >= this.tokens.length;
  }

  columnAt(at) {
    const name = this.tokens[at]?.text;
    const same = this.columns.filter((column) => column.name.toLowerCase() === name?.toLowerCase());
    return this.columns.find((column) => column.name === name) ?? (same.length === 1 ? same[0] : undefined);
  }

  word(name) {
    const isHere = !this.next?.isQuoted && this.next?.text.toLowerCase() === name;
    if (isHere) this.at += 1;
    return isHere;
  }

  column() {
    const column = this.columnAt(this.at);
    if (!column) throw new Error(this.isAtEnd ? "The name of a column is missing at the end." : `There is no column “${this.next.text}”.`);
    this.at += 1;
    return column;
  }

  /** Columns between commas, as `read` has each. */
  list(read) {
    const all = [read()];
    while (this.next?.isComma) {
      this.at += 1;
      all.push(read());
    }
    return all;
  }

  value() {
    if (this.isAtEnd || this.next.isComma) throw new Error("A value is missing.");
    const { text, isQuoted } = this.next;
    if (!isQuoted && Object.values(WORDS).includes(text)) throw new Error(`Before “${text}” is no value. As a value, it stands in double quotes.`);
    this.at += 1;
    return text;
  }
}

/**
 * The choice whose name or sign a token is; undefined where it is none. Behind a column of texts, a word that is in
 * sentences, too, is none.
 */
function choiceOf(token, column) {
  if (!token || token.isQuoted || token.isComma) return undefined;
  const name = token.text.toLowerCase();
  const choice = CONDITIONS.find((each) => each.name === name) ?? CONDITIONS.find((each) => each.signs.includes(name));
  const isWord = /^[a-z]+$/.test(name) && name !== choice?.name && !EXPECTED.has(name);
  return isWord && column?.encoding === "text" ? undefined : choice;
}

/** A text as a value of the column. */
function typed(column, text) {
  if (column.encoding === "boolean") {
    const word = text.toLowerCase();
    if (!Object.hasOwn(TRUTH, word)) throw new Error(`${column.name} is true or false.`);
    return TRUTH[word];
  }
  try {
    return valueOf(column, text);
  } catch {
    throw new Error(`“${text}” is no value of ${column.name}.`);
  }
}

function condition(reader) {
  const column = reader.column();
  const choice = choiceOf(reader.next, column);
  if (!choice) throw new Error(`After ${column.name}, write a condition, such as =, <, >= or has.`);
  reader.at += 1;
  const { op, takes } = choice;
  if (takes === "flag") return { column: column.name, op, value: choice.value ?? true };
  const texts = reader.list(() => reader.value());
  if (texts.length === 1 && isTime(column) && op === CONDITIONS[0].op) return day(column, texts[0], column.hasZone);
  const several = texts.length > 1 && takes === "one" ? CONDITIONS.find((other) => other.takes === "several" && other.kind === choice.kind && !other.name.startsWith("not") === (op === CONDITIONS[0].op)) : null;
  if (takes === "one" && texts.length > 1 && !several) throw new Error(`“${choice.words}” takes one value.`);
  if (texts.length > 1 && isNumber(column) && texts.some((text) => /^0\d/.test(text))) throw new Error("Write numbers without commas between their digits.");
  if (takes === "two" && texts.length !== 2) throw new Error(`“${choice.words}” takes two values.`);
  const values = texts.map((text) => typed(column, text));
  return { column: column.name, op: several?.op ?? op, value: several || takes !== "one" ? values : values[0] };
}

/** A year, month, day or hour of a column of times, as its beginning is written: 2013, 2013-07, 2013-07-04. */
function day(column, text, hasZone) {
  const sizes = BUCKETS.filter(({ characters }) => characters === text.length).sort((one, other) => one.months - other.months || one.hours - other.hours);
  const [bucket] = sizes.filter(({ months, hours }) => months || hours);
  const isHour = text.length > DAY;
  const first = !(isHour && column.encoding === "date") && /^\d{4}(-\d\d(-\d\d([T ]\d\d)?)?)?$/.test(text) && bucket ? `${text.slice(0, 10)}-01-01`.slice(0, 10) : null;
  if (!first) return { column: column.name, op: CONDITIONS[0].op, value: typed(column, text) };
  const start = new Date(`${first}T00:00:00Z`);
  if (Number.isNaN(start.getTime()) || start.toISOString().slice(0, DAY) !== first) throw new Error(`There is no day “${first}”.`);
  const time = column.encoding === "date" ? "" : `T${text.slice(11) || "00"}:00:00${hasZone ? "Z" : ""}`;
  return inBucket(column.name, bucket.name, `${first}${time}`);
}

/** A column, or the unit of one of times: departure:month. */
function key(reader) {
  const [name, unit] = reader.columnAt(reader.at) ? [] : (reader.next?.text ?? "").split(/:(?=[^:]*$)/);
  if (unit === undefined) return reader.column().name;
  const bucket = BUCKETS.find((each) => each.name === unit.toLowerCase());
  if (!bucket) throw new Error(`“${unit}” is none of ${BUCKETS.map((each) => each.name).join(", ")}.`);
  reader.tokens[reader.at] = { text: name };
  return { column: reader.column().name, bucket: bucket.name };
}

function sortKey(reader) {
  const token = reader.next?.text ?? "";
  const isDescending = token.startsWith("-") && !reader.columnAt(reader.at);
  if (isDescending) reader.tokens[reader.at] = { text: token.slice(1) };
  return { field: reader.column().name, order: isDescending ? "desc" : "asc" };
}

function aggregateAt(reader) {
  const token = reader.next;
  return !token?.isQuoted && reader.columnAt(reader.at + 1) ? AGGREGATES.find((name) => name === token?.text.toLowerCase()) : undefined;
}

/** Whether a text is meant as a question, and not as a text to look for. */
function isQuestion(reader) {
  const [first, second, third] = reader.tokens;
  if (!second) return false;
  const column = reader.columnAt(0);
  if (column) {
    const choice = choiceOf(second, column);
    // “in” is a word of sentences, unless a list follows.
    const isSentence = column.encoding === "text" && choice?.takes === "several" && !reader.tokens[3]?.isComma;
    if (choice) return !(isSentence && second.text.toLowerCase() === choice.name && !choice.name.includes("_"));
  }
  if (first.isQuoted) return false;
  const word = first.text.toLowerCase();
  if (word === WORDS.chart && second.text.toLowerCase() === WORDS.by) return Boolean(third);
  const isColumn = (name) => reader.columns.some((each) => each.name.toLowerCase() === name.toLowerCase());
  const name = word === WORDS.by ? second.text.replace(/:[^:]*$/, "") : word === WORDS.sort ? second.text.replace(/^-/, "") : second.text;
  return (Object.values(WORDS).includes(word) || AGGREGATES.includes(word)) && (isColumn(name) || isColumn(second.text));
}

/**
 * What a text asks: { filters, group, sort, hasChart }; null where it is a text to look for. Throws an Error that says what
 * is wrong in a question.
 * @param {object[]} columns those that can be asked about, with `hasZone` where their instants have a zone
 */
export function readQuestion(text, columns) {
  if (text.length > LONGEST || /^"[^"]*"$/.test(text)) return null;
  const reader = new Reader(text, columns);
  if (!isQuestion(reader)) return null;
  if (text.replaceAll(/[^"]/g, "").length % 2) throw new Error("A double quote has no second one.");
  const question = { filters: [], by: [], aggregates: [], sort: [], hasChart: false };
  while (!reader.isAtEnd) {
    const aggregate = aggregateAt(reader);
    const column = reader.columnAt(reader.at);
    if (reader.next.isComma) reader.at += 1;
    else if (column && choiceOf(reader.tokens[reader.at + 1], column)) question.filters.push(condition(reader));
    else if (aggregate && !choiceOf(reader.tokens[reader.at + 1])) {
      reader.at += 1;
      question.aggregates.push(...reader.list(() => ({ function: aggregate, column: reader.column().name })));
    } else if (reader.word(WORDS.by)) question.by.push(...reader.list(() => key(reader)));
    else if (reader.word(WORDS.sort)) question.sort.push(...reader.list(() => sortKey(reader)));
    else if (reader.word(WORDS.chart)) question.hasChart = true;
    else question.filters.push(condition(reader));
  }
  return finished(question);
}

/** Groups come largest first, by the last aggregate; those of times in their order. */
function finished({ filters, by, aggregates, sort, hasChart }) {
  if (!by.length && !aggregates.length) return { filters, group: null, sort, hasChart };
  if (sort.length) throw new Error("Groups are ordered by their last aggregate. Leave sort out, and click on a header.");
  const last = aggregates.at(-1);
  const isInTime = by.some((each) => each.bucket);
  const order = isInTime || !by.length ? [] : [{ field: last ? `${last.function}_${last.column}` : ROWS.function, order: "desc" }];
  return { filters, group: { by, aggregates: [ROWS, ...aggregates] }, sort: order, hasChart };
}
