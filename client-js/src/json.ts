/** JSON whose numbers keep all their digits, and the values of typed columns. */
import { ParseError } from "./errors.ts";
import type { Column, Encoding, Row } from "./wire.ts";

/**
 * A number that JSON.parse may round: 16 digits of a whole one, 18 of another, an exponent of three. Texts are searched,
 * too: one that contains such a number is read more slowly, and correctly.
 */
const LONG_NUMBER = /[[:,\s]-?(?:\d{16}|[1-9][\d.]{18}|0\.0*[1-9]\d{17}|\d[\d.]*[eE][+-]?\d{3})/;

/**
 * The value of a JSON text. A whole number that a `number` would round is a `bigint`. Another number that a `number`
 * would round (more than 17 digits, or beyond its range), as documents may have them, is a string of its digits.
 *
 * @throws {SyntaxError} the text is not JSON.
 * @throws {RangeError} it is nested too deeply, or a whole number has more than 200,000 digits.
 */
export function parseJSON(text: string): unknown {
  const isShort = (text.startsWith("[") || text.startsWith("{")) && !LONG_NUMBER.test(text);
  return isShort ? JSON.parse(text) : new ExactReader(text).read();
}

/** The JSON value at a position of a text, also with NaN and Infinity as Python writes them; undefined if there is none, and where reading ended: of deep nesting, the end. */
export function jsonAt(text: string, start: number): [value: unknown, end: number] {
  const reader = new ExactReader(text, start);
  try {
    return [reader.value(), reader.at];
  } catch (error) {
    return [undefined, error instanceof RangeError ? text.length : reader.at];
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const CONSTANT = /NaN|-?Infinity/y;
const STRING_STOP = /["\\\u0000-\u001f]/g;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

/**
 * Reads JSON from its text. A reviver of `JSON.parse` that sees the digits (`context.source`) takes more than twice as long
 * (benchmarks/exact_json.mjs), and node 20 does not have it.
 */
class ExactReader {
  at: number;
  private readonly text: string;
  private readonly isWithin: boolean;

  constructor(text: string, start?: number) {
    this.text = text;
    this.at = start ?? 0;
    this.isWithin = start !== undefined;
  }

  read(): unknown {
    const value = this.value();
    this.skip();
    if (this.at < this.text.length) throw this.unexpected();
    return value;
  }

  value(): unknown {
    switch (this.skip()) {
      case 0x7b: // {
        return this.object();
      case 0x5b: // [
        return this.array();
      case 0x22: // "
        return this.string();
      case 0x74:
        return this.word("true", true);
      case 0x66:
        return this.word("false", false);
      case 0x6e:
        return this.word("null", null);
      default:
        return this.number();
    }
  }

  private object(): Row {
    const object: Row = {};
    this.at++;
    if (this.skip() === 0x7d) return this.ended(object);
    for (;;) {
      if (this.skip() !== 0x22) throw this.unexpected();
      const name = this.string();
      if (this.skip() !== 0x3a) throw this.unexpected();
      this.at++;
      set(object, name, this.value());
      if (this.isLast(0x7d)) return object;
    }
  }

  private array(): unknown[] {
    const array: unknown[] = [];
    this.at++;
    if (this.skip() === 0x5d) return this.ended(array);
    for (;;) {
      array.push(this.value());
      if (this.isLast(0x5d)) return array;
    }
  }

  private string(): string {
    const start = this.at + 1;
    let hasEscapes = false;
    for (let next = start; ; next = ESCAPE.lastIndex) {
      STRING_STOP.lastIndex = next;
      if (!STRING_STOP.test(this.text)) throw this.unexpected(this.text.length);
      this.at = STRING_STOP.lastIndex - 1;
      if (this.text.charCodeAt(this.at) === 0x22) break;
      ESCAPE.lastIndex = this.at;
      if (!ESCAPE.test(this.text)) throw this.unexpected();
      hasEscapes = true;
    }
    const inner = this.text.slice(start, this.at++);
    return hasEscapes ? JSON.parse(`"${inner}"`) : inner;
  }

  private number(): unknown {
    NUMBER.lastIndex = this.at;
    if (!NUMBER.test(this.text)) return this.constant();
    const text = this.text.slice(this.at, NUMBER.lastIndex);
    this.at = NUMBER.lastIndex;
    return /[.eE]/.test(text) ? real(text) : whole(text);
  }

  private constant(): number {
    CONSTANT.lastIndex = this.at;
    const [text] = (this.isWithin && CONSTANT.exec(this.text)) || [];
    if (text === undefined) throw this.unexpected();
    this.at += text.length;
    return Number(text);
  }

  private word<T>(name: string, value: T): T {
    if (!this.text.startsWith(name, this.at)) throw this.unexpected();
    this.at += name.length;
    return value;
  }

  private isLast(closing: number): boolean {
    const code = this.skip();
    if (code !== closing && code !== 0x2c) throw this.unexpected();
    this.at++;
    return code === closing;
  }

  private ended<T>(value: T): T {
    this.at++;
    return value;
  }

  private skip(): number {
    let code = this.text.charCodeAt(this.at);
    while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) code = this.text.charCodeAt(++this.at);
    return code;
  }

  private unexpected(at = this.at): SyntaxError {
    this.at = at;
    return new SyntaxError(`Unexpected text in JSON at position ${this.at}`);
  }
}

/** Sets a field of data. Assigned, one called `__proto__` would change the prototype. */
export function set(row: Row, name: string, value: unknown): void {
  if (name !== "__proto__") row[name] = value;
  else Object.defineProperty(row, name, { value, writable: true, enumerable: true, configurable: true });
}

function whole(digits: string): number | bigint {
  const number = Number(digits);
  return Number.isSafeInteger(number) ? number : bigint(digits);
}

/** PostgreSQL's numbers have up to 131,072 digits. BigInt() takes 8 seconds for 5 million, in which nothing else runs. */
const MOST_DIGITS = 200_000;

function bigint(digits: string): bigint {
  if (digits.length > MOST_DIGITS) throw new RangeError("a number has too many digits");
  return BigInt(digits);
}

/** IEEE 754: a double is written with at most 17 digits. */
const KEPT_DIGITS = 17;

function real(text: string): number | string {
  const number = Number(text);
  if (number !== 0 && Number.isFinite(number) && text.length <= KEPT_DIGITS) return number;
  const digits = significant(text.replace(/[eE].*$/, "").replace(/[-.]/g, ""));
  const isInRange = Number.isFinite(number) && (number !== 0 || digits === "");
  return isInRange && digits.length <= KEPT_DIGITS ? number : text;
}

/** Without leading and trailing zeros. A pattern for the trailing zeros would backtrack at each zero within. */
function significant(digits: string): string {
  let start = 0;
  let end = digits.length;
  while (start < end && digits.charCodeAt(start) === 0x30) start++;
  while (end > start && digits.charCodeAt(end - 1) === 0x30) end--;
  return digits.slice(start, end);
}

/** In a row, the names of the cells that do not fit their columns' encodings: each is a text. */
export const UNFIT = "$unfit";

type Decode = (value: unknown) => unknown;

const DECODERS: Partial<Record<Encoding, Decode>> = { integer, "integer-string": integer, base64: bytes };

/**
 * Replaces values in place: whole numbers by `bigint`, bytes by `Uint8Array`. All others stay as JSON has them: decimals,
 * dates, times and intervals are texts, because JavaScript has no types that hold them.
 *
 * @throws {ParseError} a value does not fit its column's encoding.
 */
export function decodeRows(rows: Row[], columns: readonly Column[]): Row[] {
  for (const column of columns) {
    const decode = decoder(column);
    if (decode) decodeColumn(rows, column, decode);
  }
  return rows;
}

function decoder(column: Column): Decode | undefined {
  if (column.encoding !== "array") return DECODERS[column.encoding];
  const decode = DECODERS[column.items ?? "any"];
  return decode && ((value) => decodeItems(decode, value));
}

function decodeItems(decode: Decode, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => decodeItems(decode, item));
  return value === null ? null : decode(value);
}

function decodeColumn(rows: Row[], column: Column, decode: Decode): void {
  const { name } = column;
  for (const row of rows) {
    // A row without the column inherits a `constructor`.
    const value = Object.hasOwn(row, name) ? row[name] : null;
    if (value === null || isUnfit(row, name)) continue;
    try {
      set(row, name, decode(value));
    } catch {
      throw new ParseError(`Column '${name.slice(0, 80)}' holds a value that is not written as '${column.encoding}'.`, {
        hint: "Leave out typed: true to see the values as they were sent.",
        details: { column: name, encoding: column.encoding },
      });
    }
  }
}

function isUnfit(row: Row, name: string): boolean {
  const names = row[UNFIT];
  return Array.isArray(names) && names.includes(name);
}

function integer(value: unknown): bigint {
  if (typeof value === "string" ? !/^-?\d+$/.test(value) : typeof value !== "bigint" && !Number.isSafeInteger(value)) {
    throw new TypeError("no whole number");
  }
  return typeof value === "string" ? bigint(value) : BigInt(value as number | bigint);
}

function bytes(value: unknown): Uint8Array<ArrayBuffer> {
  if (typeof value !== "string") throw new TypeError("no text");
  return Uint8Array.from(atob(value), (character) => character.charCodeAt(0));
}
