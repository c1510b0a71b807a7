/**
 * Finds dual responses in the result of a tool call, of any SDK. There are four kinds of evidence: the structure
 * (results, resource, metadata); a resource without a URI whose URL is at a configured address; a resource link whose URI
 * has the form of a result's; and, if an SDK retains only text, such a URI in a text.
 */
import { isHandle, resourceId, uriOfURL } from "./addresses.ts";
import { isObject } from "./errors.ts";
import { parseJSON, set } from "./json.ts";
import type { Column, Encoding, Row, TotalCountKind } from "./wire.ts";

/** A dual response as the tool result describes it. It is untrusted; a bare link has little more than the URI. */
export interface Detected {
  uri: string;
  name: string;
  /** The address of the rows according to the tool result. */
  url?: string | undefined;
  /** Undefined for a bare link. */
  sample?: Row[] | undefined;
  totalCount: number | null;
  totalCountKind: TotalCountKind;
  columns: Column[];
  expiresAt: Date | null;
  isPending: boolean;
  /** Equal for two descriptions of one resource. */
  key: string;
}

type IsConfigured = (url: string) => boolean;
type Fields = Record<string, unknown>;

/**
 * All dual responses inside a value, one for each resource, the shallowest first. The content of a dual response, and
 * of a result that is marked as an error, is not searched: a row cannot pose as a dual response.
 *
 * @param inTexts false for texts that may be cut.
 */
export function findDetected(value: unknown, isConfigured: IsConfigured, inTexts = true): Detected[] {
  const walk = new Walk(value);
  const responses = new Map<string, Detected>();
  for (let fields = walk.next(); fields !== undefined; fields = walk.next()) {
    if (isError(fields)) continue;
    const detected = structure(fields) ?? byURL(fields, isConfigured) ?? link(fields);
    if (!detected) walk.descend(fields);
    else if (isMoreComplete(detected, responses.get(detected.key))) responses.set(detected.key, detected);
  }
  if (responses.size || !inTexts) return [...responses.values()];
  return urisIn(walk.texts).map((uri) => bare(uri, ""));
}

/** The dual response that a value itself is, such as a structuredContent. */
export function readStructure(value: unknown, isConfigured: IsConfigured = () => false): Detected | undefined {
  const fields = fieldsOf(value);
  return fields && (structure(fields) ?? byURL(fields, isConfigured));
}

/** Whether a dual response adds to an earlier one of the same resource. */
export function isMoreComplete(detected: Detected, earlier: Detected | undefined): boolean {
  return !earlier || (earlier.sample === undefined && detected.sample !== undefined);
}

/** Of MCP; LangChain's ToolMessage; parts of the AI SDK. */
function isError(fields: Fields): boolean {
  return (
    fields["isError"] === true || fields["is_error"] === true || fields["status"] === "error" ||
    fields["state"] === "output-error" || (typeof fields["type"] === "string" && ERROR_PARTS.has(fields["type"]))
  );
}

const ERROR_PARTS = new Set(["tool-error", "error-text", "error-json"]);

function structure(fields: Fields): Detected | undefined {
  const resource = fieldsOf(fields["resource"]);
  const metadata = fieldsOf(fields["metadata"]);
  const uri = resource?.["uri"];
  if (!resource || !metadata || typeof uri !== "string" || resourceId(uri) === undefined) return undefined;
  const sample = rowsOf(fields["results"]);
  const columns = shownColumns(metadata);
  if (!sample || !columns || !hasTotal(metadata)) return undefined;
  return toDetected(uri, resource, metadata, sample, columns);
}

/** A result whose resource has a URL and no URI. With a configured address, the other parts are optional. */
function byURL(fields: Fields, isConfigured: IsConfigured): Detected | undefined {
  const resource = fieldsOf(fields["resource"]);
  const url = resource?.["url"];
  if (!resource || (resource["uri"] ?? null) !== null || typeof url !== "string") return undefined;
  const uri = uriOfURL(url);
  if (uri === undefined || !isConfigured(url)) return undefined;
  const metadata = fieldsOf(fields["metadata"]) ?? {};
  const counts = hasTotal(metadata) ? metadata : { ...metadata, total_count: null, totalCount: null };
  return { ...toDetected(uri, resource, counts, rowsOf(fields["results"]), shownColumns(metadata) ?? []), key: url };
}

function toDetected(uri: string, resource: Fields, metadata: Fields, sample: Row[] | undefined, columns: Column[]): Detected {
  const total = either(metadata, "total_count", "totalCount");
  const totalCount = isCount(total) ? total : null;
  return {
    uri,
    name: typeof resource["name"] === "string" ? resource["name"] : "",
    url: typeof resource["url"] === "string" ? resource["url"] : undefined,
    sample,
    totalCount,
    totalCountKind: kindOfTotal(totalCount, either(metadata, "total_count_kind", "totalCountKind")),
    columns,
    expiresAt: readInstant(either(metadata, "expires_at", "expiresAt")),
    isPending: metadata["status"] === "pending",
    key: uri,
  };
}

function link(fields: Fields): Detected | undefined {
  const { uri, name } = fields;
  if (fields["type"] !== "resource_link" || either(fields, "mime_type", "mimeType") !== "application/json") return undefined;
  if (typeof uri !== "string" || !isHandle(uri) || !isGenerated(uri)) return undefined;
  return bare(uri, typeof name === "string" ? name : "");
}

function bare(uri: string, name: string): Detected {
  return { uri, name, totalCount: null, totalCountKind: "none", columns: [], expiresAt: null, isPending: false, key: uri };
}

function rowsOf(results: unknown): Row[] | undefined {
  if (!Array.isArray(results)) return rowsOfColumns(fieldsOf(results) ?? {});
  return results.every(isObject) ? results : undefined;
}

function rowsOfColumns(columns: Fields): Row[] | undefined {
  const values = Object.values(columns);
  const first = values[0];
  if (!Array.isArray(first) || !values.every((each) => Array.isArray(each) && each.length === first.length)) return undefined;
  return first.map((_, position) => {
    const row: Row = {};
    for (const [name, cells] of Object.entries(columns)) set(row, name, (cells as unknown[])[position]);
    return row;
  });
}

/** The columns of a tool result; a server of dualsql omits the encoding that the type of a column implies. */
function shownColumns(metadata: Fields): Column[] | undefined {
  const isOurs = (either(metadata, "total_count_kind", "totalCountKind") ?? null) !== null;
  return readColumns(metadata["columns"], isOurs ? IMPLIED : {});
}

const IMPLIED: Record<string, Encoding> = { string: "text", number: "integer", boolean: "boolean", date: "date" };
/** A Map: an object would also know `constructor`. */
const TYPES = new Map<unknown, Column["type"]>([
  ["string", "string"], ["number", "number"], ["integer", "number"], ["float", "number"], ["decimal", "number"],
  ["boolean", "boolean"], ["date", "date"], ["datetime", "date"], ["timestamp", "date"],
]);
const ENCODINGS = new Set([
  "text", "integer", "integer-string", "float", "decimal", "boolean", "date", "time", "datetime", "interval", "uuid", "base64",
  "json", "array", "any",
]);

/** The columns of an answer or tool result; undefined if they are no list of named columns. */
export function readColumns(entries: unknown, implied: Record<string, Encoding> = {}): Column[] | undefined {
  if ((entries ?? null) === null) return [];
  if (!Array.isArray(entries)) return undefined;
  const columns: Column[] = [];
  for (const entry of entries) {
    if (!isObject(entry) || typeof entry["name"] !== "string") return undefined;
    const type = TYPES.get(entry["type"]) ?? "string";
    const items = entry["items"] ?? null;
    columns.push({
      name: entry["name"],
      type,
      encoding: encodingOf(entry["encoding"] ?? implied[type]),
      ...(items === null ? {} : { items: encodingOf(items) }),
    });
  }
  return columns;
}

function encodingOf(word: unknown): Encoding {
  return typeof word === "string" && ENCODINGS.has(word) ? (word as Encoding) : "any";
}

function hasTotal(metadata: Fields): boolean {
  if (!("total_count" in metadata) && !("totalCount" in metadata)) return false;
  const total = either(metadata, "total_count", "totalCount") ?? null;
  return total === null || isCount(total);
}

export function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** The kind of a total from an answer: "exact" if it is absent, "estimated" if this client has no such kind. */
export function kindOfTotal(total: number | null, kind: unknown): TotalCountKind {
  if (total === null) return "none";
  if ((kind ?? null) === null || kind === "exact") return "exact";
  return kind === "capped" ? "capped" : "estimated";
}

/** ISO 8601; without an offset it is UTC, as on the server. */
export function readInstant(written: unknown): Date | null {
  if (typeof written !== "string" || written.length > 40 || !/^\d{4}-\d\d-\d\d([T ]|$)/.test(written)) return null;
  const moment = new Date(/(Z|[+-]\d\d:?\d\d)$/.test(written) || !/[T ]/.test(written) ? written : `${written}Z`);
  return Number.isNaN(moment.getTime()) ? null : moment;
}

function either(fields: Fields, snake: string, camel: string): unknown {
  return fields[snake] ?? fields[camel];
}

/** The next character must not be able to belong to the URI: an id that was cut is another id. */
const IN_TEXT =
  /(?<![\w+./:-])[a-z][a-z0-9+.-]{1,31}:\/\/(?:[a-z0-9][\w.-]{0,63}\/){0,8}[\w-]{1,128}(?![\w/%?#&=@:~+\\-]|\.[\w.]|…|\[)/gi;
const MOST_CHARACTERS = 4 * 1024 * 1024;
/** The text of dualsql before the URI. */
const ANNOUNCED = /(gets every row from |Rows for the application: )$/;

/** The URIs of results in these texts, each once; a text with several has none. */
function urisIn(texts: readonly string[]): string[] {
  const uris = new Set<string>();
  let remaining = MOST_CHARACTERS;
  for (const text of texts) {
    remaining -= text.length;
    if (remaining < 0) break;
    const announced = new Map([...text.matchAll(IN_TEXT)].map(({ 0: uri, index }) => [uri, ANNOUNCED.test(text.slice(Math.max(0, index - 30), index))]));
    const handles = [...announced].filter(([uri, isAnnounced]) => isHandle(uri) && (isAnnounced || isGenerated(uri)));
    if (handles.length === 1) uris.add(handles[0]![0]);
  }
  return [...uris];
}

const NAMES_A_RESULT = /^(resource|result|dataset|dualsql|row)s?$/i;
const UUID = /^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32,64})$/i;

function isGenerated(uri: string): boolean {
  const [scheme = "", path = ""] = uri.split("://");
  const segments = path.split("/");
  const id = segments.pop() ?? "";
  return [...scheme.split(/[+.-]/), ...segments].some((word) => NAMES_A_RESULT.test(word)) && (UUID.test(id) || isRandom(id));
}

/** Changes between small letters, capitals, digits and signs, per character: 0.64 on average in random ids. */
const LEAST_CHANGES = 0.36;
/** Share of the characters in words of four letters or more, 0.7 in one of 600 ids of 128 random bits. */
const MOST_IN_WORDS = 0.7;

/** Whether the characters look random, and not written by a person. */
function isRandom(id: string): boolean {
  const kinds = id.replace(/[A-Z]/g, "A").replace(/[a-z]/g, "a").replace(/[0-9]/g, "0").replace(/[^Aa0]/g, "-");
  const changes = [...kinds].filter((kind, at) => at > 0 && kind !== kinds[at - 1]).length;
  const words = id.split(/[-_]/).filter((piece) => /^[A-Za-z]?[a-z]{3,}$/.test(piece)).length;
  const inWords = (id.match(/[A-Za-z]?[a-z]{3,}/g) ?? []).join("").length;
  return (
    kinds.includes("a") && kinds.includes("A") && changes >= LEAST_CHANGES * (kinds.length - 1) && words < 2 &&
    inWords < MOST_IN_WORDS * id.length
  );
}

const MOST_NODES = 100_000;
const MOST_DEPTH = 32;
const MOST_NESTING = 4;
const MOST_JSON = 16 * 1024 * 1024;
const MOST_TEXTS = 1_000;
/** A URI with a generated id and the JSON of a dual response are longer. */
const SHORTEST_TEXT = 24;
/** Names under which SDKs keep the text for a model. */
const TEXT_NAMES = new Set(["text", "content", "output", "result", "value", "message"]);
const BEGINS_JSON = /^\s{0,64}(\{|\[\s{0,64}([[{"\]\d-]|true|false|null))/;
const EVENT_LINE = /^(data:|event:|id:|:)/;

interface Entry {
  value: unknown;
  depth: number;
  nesting: number;
  isText: boolean;
}

/** Visits the objects inside a value, the shallowest first, each once. No getter of an SDK's object runs. */
class Walk {
  /** Texts under TEXT_NAMES that contain a URI and are not JSON. */
  readonly texts: string[] = [];
  private readonly queue: Entry[] = [];
  private readonly seen = new Set<unknown>();
  private characters = MOST_JSON;
  private at = 0;
  private here: Entry;

  constructor(root: unknown) {
    this.here = { value: root, depth: 0, nesting: 0, isText: true };
    this.queue.push(this.here);
  }

  /** The fields of the next object; undefined at the end. */
  next(): Fields | undefined {
    while (this.at < this.queue.length && this.seen.size < MOST_NODES) {
      this.here = this.queue[this.at]!;
      this.at++;
      const { value } = this.here;
      if (this.seen.has(value)) continue;
      this.seen.add(value);
      if (typeof value === "string") this.open(value);
      else if (Array.isArray(value) || value instanceof Set) this.pushAll(value);
      else {
        const fields = fieldsOf(value);
        if (fields) return fields;
      }
    }
    return undefined;
  }

  /** Visit the values of an object, too. */
  descend(fields: Fields): void {
    for (const [name, value] of Object.entries(fields)) this.push(value, this.here.nesting, TEXT_NAMES.has(name));
  }

  private pushAll(values: Iterable<unknown>, nesting = this.here.nesting): void {
    // A list within a list is a row of a table.
    for (const value of values) this.push(value, nesting, this.here.isText && !Array.isArray(value));
  }

  private push(value: unknown, nesting: number, isText: boolean): void {
    const depth = this.here.depth + 1;
    if (depth > MOST_DEPTH || this.queue.length >= 2 * MOST_NODES) return;
    if (typeof value === "string" ? this.mayBeJSON(value, isText) : typeof value === "object" && value !== null) {
      this.queue.push({ value, depth, nesting, isText });
    }
  }

  private mayBeJSON(text: string, isText: boolean): boolean {
    if (text.length < SHORTEST_TEXT) return false;
    if (BEGINS_JSON.test(text) || EVENT_LINE.test(text)) return true;
    if (isText && text.includes("://") && this.texts.length < MOST_TEXTS) this.texts.push(text);
    return false;
  }

  private open(text: string): void {
    if (this.here.depth === 0 && !this.mayBeJSON(text, true)) return;
    this.characters -= text.length;
    const mayHoldResult = text.includes("resource") || text.includes("://");
    if (this.characters < 0 || this.here.nesting >= MOST_NESTING || !mayHoldResult) return;
    this.here = { ...this.here, isText: true };
    this.pushAll(jsonIn(text), this.here.nesting + 1);
  }
}

/** The JSON that a text is: one value, a value on each line, or the data of server-sent events. */
function jsonIn(text: string): unknown[] {
  const whole = tryJSON(text);
  if (whole) return whole;
  const lines = text.split(/\r\n|\n|\r/);
  if (lines.length < 2 && !text.startsWith("data:")) return [];
  return lines.slice(0, MOST_TEXTS).flatMap((line) => tryJSON(line.replace(/^data:/, "")) ?? []);
}

function tryJSON(text: string): [unknown] | undefined {
  try {
    return [parseJSON(text)];
  } catch {
    return undefined;
  }
}

/** The stored fields of an object or a map; undefined for anything else, or if reading them fails. */
function fieldsOf(value: unknown): Fields | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value) || ArrayBuffer.isView(value)) return undefined;
  try {
    if (value instanceof Map) return fromEntries([...value].filter(([name]) => typeof name === "string"));
    const fields: [string, unknown][] = [];
    for (const name of Object.keys(value)) {
      const field = Object.getOwnPropertyDescriptor(value, name);
      if (field && "value" in field) fields.push([name, field.value]);
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
