// Values as a person reads them, in the reader's locale. The exact value stays beside them.

const NUMBERS = new Set(["integer", "integer-string", "float", "decimal"]);
export const LONGEST = 500; // characters of a cell in the grid
const MOST_DIGITS = 4; // behind the point, of fractions that are rounded
const FEW_DIGITS = 6; // that are shown
const LEAST_DIGITS = 2; // where some values have fractions
// As _HIDDEN in words.py. The tags of a flag (England's) are no secret, and neither are joiners between letters that join.
const HIDDEN = /(\u{1f3f4}[\u{e0020}-\u{e007f}]+)|[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]|(?:^|(?<=[\x00-\u024f]))[\u200c\u200d]/gu;
const SIGNS = { "\n": "↵", "\r": "␍", "\t": "⇥" };

// The parts of dateStyle and timeStyle "medium", beside which no zone may stand.
const DAY = { year: "numeric", month: "short", day: "numeric" };
const TIME = { hour: "numeric", minute: "2-digit", second: "2-digit" };

const formats = new Map();

export function isNumber(column) {
  return NUMBERS.has(column.encoding);
}

export function isTime(column) {
  return column?.encoding === "date" || column?.encoding === "datetime";
}

/** The value as the JSON has it: what is copied and what the cell dialog shows. */
export function exact(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A cell: its text in the grid, its kind (null, empty, number, text), and of a rounded number the `whole` one. */
export function shown(value, column, isExact) {
  if (value === null || value === undefined) return { kind: "null", text: "NULL" };
  if (value === "") return { kind: "empty", text: "empty" };
  const kind = isNumber(column) ? "number" : "text";
  const whole = exact(value);
  if (isExact) return { kind, text: visible(whole) };
  const text = localised(value, column);
  return isNumber(column) && digitsIn(whole) > (column.digits ?? Infinity) ? { kind, text, whole } : { kind, text };
}

/**
 * Digits behind the point that all fractions of a column are shown with, as far as these values say; undefined where they
 * have one number of digits. Most averages and sums of doubles have some 15, which say nothing: the whole is on hover.
 */
export function digitsOf(column, values) {
  if (column.encoding !== "float" && column.encoding !== "decimal") return undefined;
  const texts = values.filter((value) => value !== null).map(exact).filter((text) => Number.isFinite(Number(text)));
  const sorted = (texts) => texts.map(digitsIn).sort((one, other) => one - other);
  const digits = sorted(texts);
  if (!digits.length || digits[0] === digits.at(-1)) return column.encoding === "float" ? Math.min(digits[0] ?? 0, MOST_DIGITS) : undefined;
  if (digits.at(-1) <= FEW_DIGITS) return digits.at(-1);
  // 97.71000000000001 is a double of two digits.
  const rounded = sorted(texts.map((text) => String(Number(Number(text).toFixed(MOST_DIGITS)))));
  return Math.max(rounded[Math.floor(texts.length * 0.8)], Math.min(rounded.at(-1), LEAST_DIGITS));
}

function digitsIn(text) {
  return /^-?\d+(?:\.(\d+))?$/.exec(text)?.[1]?.length ?? 0;
}

function localised(value, column) {
  const text = exact(value);
  if (isNumber(column)) return inLocale(text, column.digits) ?? visible(text);
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

function inLocale(text, shownDigits) {
  const match = /^-?(\d+)(?:\.(\d+))?$/.exec(text);
  if (!match) return null; // an exponent, or what does not fit its column
  // A number that is less than the last digit shown would read as none, or as another.
  const isTiny = Number(text) && Math.abs(Number(text)) < 10 ** -(shownDigits ?? MOST_DIGITS);
  const digits = isTiny ? match[2].length : shownDigits ?? match[2]?.length ?? 0;
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
  const options = encoding === "date" ? { dateStyle: "medium" } : { ...DAY, ...TIME };
  if (match[4]) options.timeZoneName = "short";
  else options.timeZone = "UTC"; // without a zone: as it is written
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

/** A total of rows, or of groups, with what it is worth; undefined or null where it was not counted. */
export function totalInWords(total, kind, isOfGroups) {
  if (total === undefined || total === null) return "rows not counted";
  const worth = { estimated: "about ", capped: "at least " }[kind] ?? "";
  return `${worth}${grouped(total)} ${isOfGroups ? "group" : "row"}${total === 1 ? "" : "s"}`;
}
