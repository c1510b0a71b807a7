// Values as a person reads them, in the reader's locale. The exact value stays beside them.

const NUMBERS = new Set(["integer", "integer-string", "float", "decimal"]);
const LONGEST = 500; // characters of a cell in the grid
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;
const SIGNS = { "\n": "↵", "\r": "␍", "\t": "⇥" };

const formats = new Map();

export function isNumber(column) {
  return NUMBERS.has(column.encoding);
}

/** The value as the JSON has it: what is copied and what the cell dialog shows. */
export function exact(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A cell: its text in the grid, its kind (null, empty, number, text). */
export function shown(value, column, isExact) {
  if (value === null || value === undefined) return { kind: "null", text: "NULL" };
  if (value === "") return { kind: "empty", text: "empty" };
  const kind = isNumber(column) ? "number" : "text";
  return { kind, text: isExact ? visible(exact(value)) : localised(value, column) };
}

function localised(value, column) {
  const text = exact(value);
  if (isNumber(column)) return inLocale(text) ?? visible(text);
  if (column.encoding === "date" || column.encoding === "datetime") return instant(text, column.encoding) ?? visible(text);
  return visible(text);
}

/** Invisible characters and changes of direction as signs, and a long text cut. */
export function visible(text) {
  const whole = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  return whole.replace(HIDDEN, (sign) => SIGNS[sign] ?? `⟨U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

function inLocale(text) {
  const match = /^-?(\d+)(?:\.(\d+))?$/.exec(text);
  if (!match) return null; // an exponent, or what does not fit its column
  const digits = match[2]?.length ?? 0;
  if (digits > 100) return null;
  // Four digits may be a year.
  return format(`n${digits}${match[1].length > 4}`, () => new Intl.NumberFormat(undefined, {
    minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: match[1].length > 4,
  })).format(text);
}

function instant(text, encoding) {
  const match = /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)?)?$/.exec(text);
  if (!match || (match[3] && Number(match[3]))) return null; // fractions of a second are shown as they are
  const moment = new Date(`${match[1]}T${match[2] ?? "00:00:00"}${match[4] ?? "Z"}`);
  if (Number.isNaN(moment.getTime())) return null;
  const options = encoding === "date" ? { dateStyle: "medium" } : { dateStyle: "medium", timeStyle: "medium" };
  if (!match[4]) options.timeZone = "UTC"; // without a zone: as it is written
  return format(`t${JSON.stringify(options)}`, () => new Intl.DateTimeFormat(undefined, options)).format(moment);
}

function format(key, make) {
  if (!formats.has(key)) formats.set(key, make());
  return formats.get(key);
}

/** A whole number with its digits in groups. */
export function grouped(number) {
  return format("count", () => new Intl.NumberFormat()).format(number);
}
