/** Visits the objects inside any value that an SDK returns, with a bounded search. No getter of an SDK's object runs. */
import { mayHoldId } from "./addresses.ts";
import { isObject } from "./errors.ts";
import { jsonAt, parseJSON } from "./json.ts";
import { ARGUMENTS, isQuotation } from "./links.ts";

export type Fields = Record<string, unknown>;

/** What counts at a place: nothing, dual responses alone, or links as well. */
export const NOTHING = 0;
export const RESPONSES = 1;
export const ANYTHING = 2;
export type Scope = typeof NOTHING | typeof RESPONSES | typeof ANYTHING;

const MOST_NODES = 100_000;
const MOST_DEPTH = 32;
const MOST_NESTING = 4;
const MOST_JSON = 16 * 1024 * 1024;
const MOST_VALUES = 1_000;
/** The id of a result and the JSON of a dual response are longer. */
const SHORTEST_TEXT = 24;
const BEGINS_JSON = /^\s{0,64}(\{|"|\[\s{0,64}([[{"\]\d-]|true|false|null))/;
const BRACKET = /\{\s{0,64}"|\[\s{0,64}[[{"]/g;
/** Also the beginning of a string whose text is JSON. */
const BRACKET_OR_STRING = new RegExp(String.raw`${BRACKET.source}|"\s{0,64}[[{]\s{0,64}\\"`, "g");
/** How many times the characters of a text that is not JSON are read as JSON. */
const MOST_REPEATED = 8;
const LONGEST_NAME = 200;
/** That of an id. */
const SHORTEST_BASE64 = 44;
const AROUND_BASE64 = /^data:[\w.+/-]{0,100}(?:;[\w.+=-]{1,100}){0,4},|={0,2}\s{0,2}$/g;
const BREAK_IN_BASE64 = /(?<=[\w+/-])\r?\n(?=[\w+/-])/g;
const BEGINS_ENCODED = /(?<![\w+/-])[\w+/-]{60}/;
/** Base64 or hexadecimal digits within a text, as long as those of the URI of a result, or longer. */
const ENCODED = /(?<![\w+/-])[\w+/-]{60,}(?:\r?\n[ \t]{0,40}[\w+/-]+(?=\r?\n|=|$|["'<\\]))*/g;
const SHORTEST_DIGITS = 60;
/** How forms and mails write what is in and around base64, and how terminals colour it. */
const AROUND_ENCODED = /((?:%(?!25)[0-9a-f]{2}){1,256})|%25([0-9a-f]{2})?|=(3D)|\x1b\[[\d;]{0,20}m/gi;
interface Zlib {
  unzipSync(data: Uint8Array, options: object): Uint8Array;
}
/** Node, Deno and Bun have it. Browsers read compressed data in the course of time only. */
const ZLIB = (globalThis as { process?: { getBuiltinModule?: (name: string) => Zlib } }).process?.getBuiltinModule?.("node:zlib");
/** The beginnings of data of gzip and zlib. */
const COMPRESSED = [0x1f8b, 0x7801, 0x789c, 0x78da];
/** How many times as long compressed data may become: JSON becomes 10 times as long. */
const MOST_EXPANSION = 32;
const Z_SYNC_FLUSH = 2;
/** Bytes as JSON has them. */
const NUMBERS = /(?<!\d)(?:\d{1,3},\s?){24}/;
/** What begins each line of a server-sent event and of a quotation. */
const BEGINS_LINE = /^(?:data:|>) ?/gm;
/** Where quoted-printable breaks a line. */
const SOFT_BREAK = /=\r?\n/g;
interface Entry {
  value: unknown;
  depth: number;
  nesting: number;
  scope: Scope;
}

/**
 * Visits the objects inside a value, the shallowest first, each once; the caller decides where to `descend`. JSON in a text
 * is opened: the whole text, or values on lines of their own and after other words, such as log lines, fenced blocks and
 * server-sent events.
 */
export class Walk {
  private readonly queue: Entry[] = [];
  private readonly scopes = new Map<unknown, Scope>();
  private characters = MOST_JSON;
  private at = 0;
  private here: Entry;
  private readonly readText: (text: string) => Scope;

  /** @param readText is called with each text outside of such JSON, and returns what counts inside the JSON in it. */
  constructor(root: unknown, readText: (text: string) => Scope) {
    this.readText = readText;
    this.here = { value: root, depth: -1, nesting: 0, scope: ANYTHING };
    this.pushAll([root], ANYTHING, 0);
  }

  /** What counts at the visited object. */
  get scope(): Scope {
    return this.here.scope;
  }

  /** The name of the class of the visited object. */
  get kind(): string {
    const prototype: unknown = Object.getPrototypeOf(this.here.value);
    const creator = prototype && Object.getOwnPropertyDescriptor(prototype, "constructor")?.value;
    return typeof creator === "function" ? creator.name : "";
  }

  /** The fields of the next object; undefined at the end. */
  next(): Fields | undefined {
    while (this.at < this.queue.length && this.scopes.size < MOST_NODES) {
      this.here = this.queue[this.at]!;
      this.at++;
      const { value, scope, nesting } = this.here;
      if ((this.scopes.get(value) ?? -1) >= scope) continue;
      this.scopes.set(value, scope);
      if (typeof value === "string") this.open(value);
      else if (value instanceof URL) this.open(value.href);
      else if (isBuffer(value)) this.open(textOf(bytesOf(value)));
      else if (value instanceof Set) this.pushAll(value, scope, nesting);
      else {
        const fields = Array.isArray(value) ? attributesOf(value) : fieldsOf(value);
        if (Array.isArray(value) && isBytes(value)) this.open(textOf(Uint8Array.from(value)));
        else if (!fields && Array.isArray(value)) this.pushAll(value, scope, nesting);
        if (fields) return fields;
      }
    }
    return undefined;
  }

  /** Visit values of an object, too, each in the scope of its name. */
  descend(pairs: [name: string, value: unknown][], scopeOf: (name: string, value: unknown) => Scope): void {
    for (const [name, value] of pairs) this.push(value, scopeOf(name, value), this.here.nesting);
  }

  private push(value: unknown, scope: Scope, nesting: number): void {
    const depth = this.here.depth + 1;
    if (depth > MOST_DEPTH || this.queue.length >= 2 * MOST_NODES) return;
    this.queue.push({ value, depth, nesting, scope });
  }

  private pushAll(values: Iterable<unknown>, scope: Scope, nesting: number): void {
    for (const value of values) if (mayLeadOn(value)) this.push(value, scope, nesting);
  }

  private open(value: string): void {
    let text = value;
    for (let plain = ofBase64(text); plain; plain = ofBase64(text)) text = plain;
    const { nesting } = this.here;
    let { scope } = this.here;
    let values: Value[] = [];
    let rest = text;
    const isOpened = nesting < MOST_NESTING && text.length <= this.characters;
    if (isOpened) {
      this.characters -= text.length;
      values = whole(text);
      [values, rest] = values.length ? [values, ""] : jsonWithin(joined(text));
    }
    if (rest && scope === ANYTHING) scope = this.readText(rest);
    if (isOpened && scope !== RESPONSES) values = [...values, ...encodedWithin(rest)];
    for (const [inner, most] of values) this.pushAll([inner], most < scope ? most : scope, nesting + 1);
  }
}

/** A value of JSON, and what counts in it. */
type Value = readonly [value: unknown, scope: Scope];

/**
 * The JSON values within a text that may hold a result, and the text without them. The lines within a value that is no
 * JSON, or is truncated, are no values of their own. The values behind its error on the same line may be parts of it: in
 * them, as in strings, only dual responses count, and they remain in the text.
 */
function jsonWithin(text: string): [values: Value[], rest: string] {
  const values: Value[] = [];
  const rest: string[] = [];
  const bracket = new RegExp(text.includes('\\"') ? BRACKET_OR_STRING : BRACKET);
  let line = 0;
  let scanned = 0;
  let valueEnd = 0;
  /** The line of such a value. */
  let broken = -1;
  let budget = MOST_REPEATED * text.length;
  for (let match = bracket.exec(text); match; match = bracket.exec(text)) {
    if (budget <= 0 || values.length >= MOST_VALUES) break;
    const start = match.index;
    const lineEnd = text.slice(scanned, start).lastIndexOf("\n");
    if (lineEnd >= 0) line = scanned + lineEnd + 1;
    scanned = start;
    if (-1 < broken && broken < line && /[\s}\]]/.test(text[line]!)) {
      const following = text.indexOf("\n", start);
      if (following < 0) break;
      bracket.lastIndex = following;
      continue;
    }
    const [value, end] = jsonAt(text, start);
    if (value === undefined) {
      // An error takes as long as 256 characters.
      budget -= end - start + 256;
      bracket.lastIndex = start + 1;
      if (text[start] === "{") {
        const lineBreak = text.slice(start, end).indexOf("\n");
        broken = line;
        bracket.lastIndex = Math.max(start + 1, lineBreak < 0 ? end : start + lineBreak);
      }
      continue;
    }
    bracket.lastIndex = end;
    if (line > broken) broken = -1;
    if (!mayHoldResult(text.slice(start, end))) continue;
    if (broken === line) {
      values.push([value, RESPONSES]);
      continue;
    }
    const isArgument = ARGUMENTS.test(text.slice(Math.max(start - LONGEST_NAME, 0), start));
    if (typeof value === "string") {
      values.push([value, isArgument || isQuotation(text, start, end) ? NOTHING : RESPONSES]);
      continue;
    }
    values.push([value, isArgument ? NOTHING : ANYTHING]);
    rest.push(text.slice(valueEnd, start));
    valueEnd = end;
  }
  return [values, [...rest, text.slice(valueEnd)].join(" ")];
}

/** Names and values that may hold a result. Most rows of a table have none. */
export function leadingPairs(fields: Fields): [name: string, value: unknown][] {
  return Object.entries(fields).filter(([, value]) => mayLeadOn(value));
}

/** Whether a value has values, or is a text that may hold a result. */
function mayLeadOn(value: unknown): boolean {
  if (typeof value === "string") return mayHoldResult(value);
  return isBuffer(value) ? mayHoldResult(textOf(bytesOf(value))) : typeof value === "object" && value !== null;
}

type Buffered = Uint8Array | DataView | ArrayBuffer;

function isBuffer(value: unknown): value is Buffered {
  return value instanceof Uint8Array || value instanceof ArrayBuffer || value instanceof DataView;
}

function bytesOf(data: Buffered): Uint8Array {
  if (data instanceof Uint8Array) return data;
  const bytes = () => (data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  return tryJSON(bytes) ?? new Uint8Array(); // it is detached
}

/** Whether a text may contain a dual response or the id of a result. */
function mayHoldResult(text: string): boolean {
  if (text.length < SHORTEST_TEXT) return false;
  const isEncoded = ["resource", "=\n", "=\r", "\\u00"].some((mark) => text.includes(mark));
  return isEncoded || mayHoldId(text) || base64(text) !== undefined || NUMBERS.test(text) || withoutEscapes(text).search(BEGINS_ENCODED) >= 0;
}

/** The text of bytes in UTF-8 or UTF-16. Throws if `fatal` and they are none; they may be truncated. */
function textOf(data: Uint8Array, fatal = false): string {
  const isBigEndian = data[0] === 0xfe && data[1] === 0xff;
  // Not the header of a message, such as that of gRPC and of Kafka's schemas.
  const isWide = data[0] && data[1] === 0 && data[2] && data[3] === 0;
  const isLittleEndian = (data[0] === 0xff && data[1] === 0xfe) || isWide;
  const encoding = isBigEndian ? "utf-16be" : isLittleEndian ? "utf-16le" : "utf-8";
  return new TextDecoder(encoding, { fatal }).decode(data, { stream: fatal });
}

/** The base64 that a text is, also for URLs or of a data URI; undefined for any other text. */
function base64(text: string): string | undefined {
  if (text.length < SHORTEST_BASE64 || text.length > MOST_JSON) return undefined;
  const encoded = text.replace(AROUND_BASE64, "").replace(BREAK_IN_BASE64, "");
  // A repetition of all its characters would need a larger stack than the engine has.
  return /[^\w+/-]/.test(encoded) ? undefined : encoded;
}

/** A text without what begins and breaks its lines in server-sent events, quotations and mails. */
function joined(text: string): string {
  return text.replace(BEGINS_LINE, "").replace(SOFT_BREAK, "");
}

/** The JSON that a text is, in a list; an empty list for any other text. */
function whole(text: string): Value[] {
  const value = BEGINS_JSON.test(text) && tryJSON(() => [[parseJSON(text), ANYTHING] as const]);
  return value || [];
}

function tryJSON<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** The text whose base64, whole or truncated, or hexadecimal digits a text is; undefined for any other text. */
function ofBase64(text: string): string | undefined {
  const digits = digitsOf(text);
  const data = tryJSON(() => uncompressed(digits === undefined ? bytesOfBase64(base64(text)) : bytesOfDigits(digits)));
  // Of a binary encoding, such as MessagePack, the links are read.
  return data && (tryJSON(() => textOf(data, true)) ?? ofBinary(textOf(data)));
}

/** What gzip or zlib made `data` of, whole or truncated, where the runtime reads it at once; else `data` itself. */
function uncompressed(data: Uint8Array | undefined): Uint8Array | undefined {
  const isCompressed = data && COMPRESSED.includes((data[0]! << 8) | data[1]!);
  if (!isCompressed || !ZLIB) return data;
  const options = { finishFlush: Z_SYNC_FLUSH, maxOutputLength: MOST_EXPANSION * data.length };
  return tryJSON(() => ZLIB.unzipSync(data, options)) ?? data;
}

/** The hexadecimal digits that a text is; undefined for any other text. */
function digitsOf(text: string): string | undefined {
  if (text.length > MOST_JSON) return undefined;
  const digits = (text.includes("\n") ? text.replace(/\s+/g, "") : text).replace(/^(?:\\?x|0x)/i, "");
  return digits.length < SHORTEST_DIGITS || /[^0-9a-f]/i.test(digits) ? undefined : digits;
}

function ofBinary(text: string): string | undefined {
  return mayHoldId(text) ? text : undefined;
}

function bytesOfBase64(text: string | undefined): Uint8Array | undefined {
  const encoded = text?.replace(/-/g, "+").replace(/_/g, "/");
  if (encoded === undefined) return undefined;
  const whole = encoded.length % 4 === 1 ? encoded.slice(0, -1) : encoded;
  return Uint8Array.from(atob(whole), (character) => character.charCodeAt(0));
}

function bytesOfDigits(digits: string): Uint8Array {
  return Uint8Array.from({ length: Math.floor(digits.length / 2) }, (_, at) => parseInt(digits.slice(2 * at, 2 * at + 2), 16));
}

/** The texts that are encoded within a text. */
function encodedWithin(encoded: string): Value[] {
  const text = withoutEscapes(encoded);
  const values: Value[] = [];
  for (const { 0: characters, index } of tryJSON(() => [...text.matchAll(ENCODED)]) ?? []) {
    if (values.length >= MOST_VALUES) break;
    const plain = ofBase64(characters.replace(/\s+/g, ""));
    if (!plain) continue;
    const isArgument = ARGUMENTS.test(text.slice(Math.max(index - LONGEST_NAME, 0), index));
    values.push([plain, isArgument || isQuotation(text, index, index + characters.length) ? NOTHING : ANYTHING]);
  }
  return values;
}

/** A text with what is in and around base64 as it is. */
function withoutEscapes(text: string): string {
  if (!["%", "=3D", "\x1b"].some((mark) => text.includes(mark))) return text;
  return text.replace(AROUND_ENCODED, (whole, run?: string, byte?: string, sign?: string) => {
    if (run) return String.fromCharCode(...run.slice(1).split("%").map((digits) => parseInt(digits, 16)));
    return whole === "%25" ? "%" : String.fromCharCode(parseInt(byte ?? sign ?? "20", 16));
  });
}

/** The stored fields of an object or a map; undefined for anything else, or if reading them fails. */
export function fieldsOf(value: unknown): Fields | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value) || ArrayBuffer.isView(value)) return undefined;
  try {
    if (value instanceof Map) return fromEntries([...value].filter(([name]) => typeof name === "string"));
    const fields: [string, unknown][] = [];
    for (const name of Object.keys(value)) {
      const field = Object.getOwnPropertyDescriptor(value, name);
      if (field && "value" in field) fields.push([name, field.value instanceof URL ? field.value.href : field.value]);
    }
    return fromEntries(fields);
  } catch {
    return undefined;
  }
}

/** Without a prototype, whose properties would stand in for missing fields. */
function fromEntries(entries: readonly (readonly [string, unknown])[]): Fields {
  const fields: Fields = Object.create(null);
  for (const [name, value] of entries) fields[name] = value;
  return fields;
}

/** Fields with dotted names, as a span has its attributes, as fields within fields; any others unchanged. */
export function nested(fields: Fields): Fields {
  const names = Object.keys(fields).filter((name) => name.includes("."));
  if (!names.length || names.some((name) => name.length > LONGEST_NAME)) return fields;
  const levels = new Map<string, Fields>();
  for (const [name, value] of Object.entries(fields)) {
    const [first] = name.split(".", 1) as [string];
    if (!levels.has(first)) levels.set(first, fromEntries([]));
    levels.get(first)![name.slice(first.length + 1)] = value;
  }
  const isPlain = (inner: Fields): boolean => Object.keys(inner).join() === "";
  return fromEntries([...levels].map(([first, inner]) => [first, isPlain(inner) ? inner[""] : nested(inner)]));
}

/** Whether a list of numbers is bytes, as JSON has those of a buffer. */
function isBytes(items: readonly unknown[]): items is number[] {
  return items.length >= SHORTEST_TEXT && items.every((item) => Number.isInteger(item) && (item as number) >= 0 && (item as number) < 256);
}

/** Types of the values of attributes. */
const VALUE_TYPES = new Set<unknown>(["string", "boolean", "bool", "number", "json", "int64", "float64"]);
/** Plain values of typed ones: one value may stand in many places. */
type Plain = Map<unknown, unknown>;

/** A list of names and values, such as attributes, headers and tags, as one object; undefined for any other list. */
function attributesOf(items: readonly unknown[], depth = 0, plainValues: Plain = new Map()): Fields | undefined {
  const attributes: [string, unknown][] = [];
  const names = new Set<string>();
  for (const item of items) {
    const entries = isObject(item) ? Object.entries(fieldsOf(item) ?? {}) : [];
    const pair = fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value]));
    const name = pair["key"] ?? pair["name"];
    if (entries.length < 2 || entries.length > 3 || typeof name !== "string" || !("value" in pair)) return undefined;
    if (names.has(name)) return undefined;
    names.add(name);
    if (entries.length === 3 && !VALUE_TYPES.has(pair["type"])) return undefined;
    attributes.push([name, untyped(pair["value"], depth, plainValues)]);
  }
  return attributes.length ? fromEntries(attributes) : undefined;
}

/** Names of types: of DynamoDB (S, N, M, BOOL), protobuf, Firestore and OpenTelemetry (stringValue), MongoDB. */
const TYPE = /^(?:[A-Z]{1,4}|[a-z]+_?[vV]alue|\$number[A-Z][a-z]+)$/;
const TEXT_TYPES = ["S", "stringValue", "string_value"];

/** The plain JSON of JSON that names the type of each value; any other value itself. */
export function untyped(value: unknown, depth = 0, plainValues: Plain = new Map()): unknown {
  const entries = Object.entries(fieldsOf(value) ?? {});
  if (entries.length !== 1 || depth > MOST_DEPTH || !TYPE.test(entries[0]![0])) return value;
  if (!plainValues.has(value)) {
    plainValues.set(value, value); // what a value within itself is
    plainValues.set(value, plain(...entries[0]!, depth + 1, plainValues));
  }
  return plainValues.get(value);
}

function plain(kind: string, typed: unknown, depth: number, plainValues: Plain): unknown {
  const fields = fieldsOf(typed);
  const only = fields && Object.keys(fields).length === 1 ? (fields["fields"] ?? fields["values"]) : undefined;
  const inner = only ?? typed;
  if (Array.isArray(inner)) return attributesOf(inner, depth, plainValues) ?? inner.map((item) => untyped(item, depth, plainValues));
  const map = fieldsOf(inner);
  if (map) return fromEntries(Object.entries(map).map(([name, item]) => [name, untyped(item, depth, plainValues)]));
  if (kind === "NULL") return null;
  return typeof inner === "string" && !TEXT_TYPES.includes(kind) ? (tryJSON(() => parseJSON(inner)) ?? inner) : inner;
}
