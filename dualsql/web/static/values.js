// Values as a person reads them, in the reader's locale. The exact value stays beside them.

const NUMBERS = new Set(["integer", "integer-string", "float", "decimal"]);
export const LONGEST = 500; // characters of a cell in the grid
// As _HIDDEN in words.py. The tags of a flag (England's) are no secret, and neither are joiners between letters that join.
const HIDDEN = /(\u{1f3f4}[\u{e0020}-\u{e007f}]+)|[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]|(?:^|(?<=[\x00-\u024f]))[\u200c\u200d]/gu;
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

/** Characters that are not seen, or change the direction of others, as signs; a long text cut. */
export function visible(text) {
  const whole = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  if (text && !text.trimEnd()) return signs(whole).replaceAll(" ", "␣").replaceAll("\u00a0", "⟨U+00A0⟩");
  return signs(whole);
}

/** A text in full, with signs for what is not seen; lines and tabs stay. */
export function wholeText(text) {
  return text.split(/([\n\t])/).map((part) => (part === "\n" || part === "\t" ? part : signs(part))).join("");
}

function signs(text) {
  return text.replace(HIDDEN, (sign, flag) => flag ?? SIGNS[sign] ?? `⟨U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
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

/** The whole number that a reader writes, in digits of the locale or in ASCII; 0 where there is none. */
export function wholeNumber(text) {
  const digits = format("digits", () => [..."0123456789"].map((digit) => new Intl.NumberFormat().format(digit)));
  return Number([...text].map((sign) => (digits.includes(sign) ? digits.indexOf(sign) : sign)).join("").replace(/\D/g, ""));
}

/** A total of rows, or of groups, with what it is worth; undefined or null where nobody counted. */
export function totalInWords(total, kind, isOfGroups) {
  if (total === undefined || total === null) return "rows not counted";
  const worth = { estimated: "about ", capped: "at least " }[kind] ?? "";
  return `${worth}${grouped(total)} ${isOfGroups ? "group" : "row"}${total === 1 ? "" : "s"}`;
}
