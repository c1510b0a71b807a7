/**
 * Finds dual responses in the result of a tool call, of any SDK. There are two kinds of evidence. An id with a checksum is one
 * that dualsql made, wherever it is written. A result of another server has the structure of the specification: a resource
 * at a configured address beside results or metadata, or one with a `resource://` URI beside both.
 */
import { Origins, isChecked, isWeb, resourceId, uriOfURL } from "./addresses.ts";
import { isObject } from "./errors.ts";
import { set } from "./json.ts";
import { LinkReader, linkIn } from "./links.ts";
import { ANYTHING, NOTHING, RESPONSES, Walk, fieldsOf, leadingPairs, nested, untyped, type Fields, type Scope } from "./walk.ts";
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

/**
 * All dual responses inside a value, one for each resource: the shallowest first, then links in texts. The rows of a dual
 * response and a failure are not searched; of a person's message and the arguments of a call, only the results of tools in
 * them are.
 */
export function findDetected(value: unknown, origins: Origins): Detected[] {
  const responses = new Map<string, Detected>();
  const reader = new LinkReader(origins);
  const walk = new Walk(value, (text) => (reader.read(text) ? RESPONSES : ANYTHING));
  for (let visited = walk.next(); visited !== undefined; visited = walk.next()) {
    const fields = nested(visited);
    const pairs = leadingPairs(fields);
    if (!pairs.length) continue;
    const words = wordsOf(fields);
    const failed = isFailed(fields, words);
    const scope = failed ? NOTHING : scopeOf(words, walk);
    const response = scope === NOTHING ? undefined : toResponse(fields, origins);
    if (!response?.sample) walk.descend(pairs, scopesOf(fields, scope, failed, response !== undefined));
    const detected = response ?? (scope === ANYTHING ? namedLink(fields, origins) : undefined);
    if (detected && isMoreComplete(detected, responses.get(detected.key))) responses.set(detected.key, detected);
  }
  for (const { uri, url } of reader.links) {
    const detected = bare(uri, "", url);
    if (!responses.has(detected.key)) responses.set(detected.key, detected);
  }
  return [...responses.values()];
}

/** The dual response that a value itself is, such as a structuredContent. */
export function readStructure(value: unknown, origins = new Origins(undefined, [])): Detected | undefined {
  const fields = fieldsOf(value);
  return fields && toResponse(fields, origins);
}

/** Whether a dual response adds to an earlier one of the same resource. */
export function isMoreComplete(detected: Detected, earlier: Detected | undefined): boolean {
  return !earlier || completeness(detected) > completeness(earlier);
}

function completeness({ sample, totalCount, columns }: Detected): number {
  return sample ? 2 : totalCount !== null || columns.length ? 1 : 0;
}

// The words of names and kinds that SDKs, hosts, protocols and tracers use, as wordsIn() writes them.
const FAILED = /^(?:(?:.* )?(?:error|errored|fail|failed|failure|denied|rejected|crashed|timed out)|error .*)$/;
const SUCCESS = new Set(["success", "is success", "succeeded", "ok"]);
const STATES = new Set(["status", "state", "outcome", "conclusion", "type", "event", "level"]);
const CODES = new Set(["code", "status code"]);
const KINDS = new Set(
  "type|kind|part kind|role|message type|sender|source|from|speaker|event|event name|hook event name|session update".split("|"),
);
/** Names of who wrote a message: the role, or an object with it. */
const WRITERS = new Set(["author", "info"]);
/** Kinds of messages of a person, of thoughts, of pieces of arguments, and of events before a call. */
const QUOTATION =
  /^(?:(?:role |gen ai )?(?:user|human|system|developer)(?: (?:message|part|prompt|chunk|submit))*|(?:.* )?prompt(?: part)?|.*\b(?:arguments|args)\b.*|(?:.* )?(?:tool|call) input\b.*|input json .*|.* start(?:ed)?|thinking|reasoning)$/;
const RESULT =
  /^(?:.*\b(?:tool|function|mcp)\b.* (?:result|response|return|output|message)s?\b.*|(?:role )?(?:tool|function)(?: part)?|tool(?:result|response|output)s?)$/;
/** Names of arguments, instructions and errors. */
const HIDDEN =
  /^(?:.*\b(?:arguments|args|instructions?|err(?:or)?s?|exceptions?|exc|failure)\b.*|cause|.+ kwargs|.*\b(?:tool|call|raw|span|chat|user|action) (?:inputs?|params|parameters)|.* input state|post data|failed reason|stack ?trace)$/;
/** Names of texts of a person, and of lists of them. */
const QUESTION = /^(?:(?:.* )?(?:prompt|question|query)|input text|user message|system)$/;
const ARGUMENTS_OF_CALLS = new Set(["input", "inputs", "kwargs", "parameters"]);
/** Fields of a call of a tool or its result; the former have the name of a tool and nothing else. */
const TOOLS = ["tool", "tool name", "function"];
const CALLS = ["name", "call id", "tool call id", "jsonrpc", ...TOOLS];
const BESIDE_ARGUMENTS = ["output", "outputs", "error", "status", "state", ...CALLS];
/** Fields of a message or a content block, and not of a row unless `columns` has them. */
const OF_MESSAGES = ["type", "kind", "part_kind", "role"];
const TABLES = new Set(["results", "data", "data array", "items", "records"]);
/** Names beside the rows of a table. A link in a cell is no result. */
const OF_TABLES = /^(?:(?:.* )?meta ?data|columns|(?:total|row) count)$/;

/** The words of a name, such as "tool call id" of toolCallId, tool-call-id and TOOL_CALL_ID_0. */
function wordsIn(name: unknown): string {
  if (typeof name !== "string") return "";
  return (name.slice(0, 40).match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+/g) ?? []).join(" ").toLowerCase();
}

/** Words of names of an object, and of the texts under them. */
type Words = (readonly [name: string, word: unknown])[];

function wordsOf(fields: Fields): Words {
  const words: Words = [];
  for (const name of Object.keys(fields)) {
    const own = wordsIn(name);
    if (WRITERS.has(own)) words.push(["role", wordsIn(fieldsOf(fields[name])?.["role"] ?? fields[name]) || undefined]);
    // A part of a message of the AI SDK has the name of its tool there.
    const value = fields[name];
    if (own === "type" && "state" in fields && typeof value === "string" && value.startsWith("tool-")) continue;
    const hasWord = KINDS.has(own) || STATES.has(own) || CODES.has(own) || SUCCESS.has(own) || FAILED.test(own);
    if (hasWord) words.push([own, wordOf(fields[name])]);
  }
  return words;
}

/** A text, a number or a flag, also one that is named: in JSON with the type of each value, or as a label. */
function wordOf(raw: unknown): unknown {
  let value = raw;
  for (let depth = 0; depth < 2; depth++) {
    const values = Object.values(fieldsOf(value) ?? {});
    if (values.length === 1) value = values[0];
  }
  return typeof value === "boolean" || typeof value === "number" ? value : wordsIn(value) || undefined;
}

/** What counts in an object: nothing in a person's message or a piece of arguments, all in a tool's result in it. */
function scopeOf(words: Words, walk: Walk): Scope {
  const kinds = [wordsIn(walk.kind), ...words.flatMap(([name, word]) => (KINDS.has(name) && typeof word === "string" ? word : []))];
  if (kinds.some((kind) => RESULT.test(kind))) return walk.scope || ANYTHING;
  return kinds.some((kind) => QUOTATION.test(kind)) ? NOTHING : walk.scope;
}

/** Whether an object is a failed call, as an SDK or a protocol says it. */
function isFailed(fields: Fields, words: Words): boolean {
  if (words.some(saysFailed)) return true;
  return hasAny(namesOf(fields), ["message", ...CALLS]) && (isFilled(fields["error"]) || isFilled(fields["exception"]));
}

function saysFailed([name, text]: Words[number]): boolean {
  const word = text === "true" || text === "false" ? text === "true" : text;
  if (typeof word === "boolean") return word ? FAILED.test(name) : SUCCESS.has(name);
  if (typeof word === "number") return (name === "status" || CODES.has(name)) && 400 <= word && word < 600;
  if (CODES.has(name)) return ["error", "failed", "failure", "status code error"].includes(word as string);
  return STATES.has(name) && typeof word === "string" && FAILED.test(word);
}

function namesOf(fields: Fields): Set<string> {
  return new Set(Object.keys(fields).map(wordsIn));
}

function hasAny(names: Set<string>, options: readonly string[]): boolean {
  return options.some((name) => names.has(name));
}

function isFilled(value: unknown): boolean {
  const isEmpty = typeof value === "object" && value !== null && !(value instanceof Error) && !Object.keys(value).length;
  return Boolean(value) && !isEmpty;
}

/** What counts under each name of an object. */
function scopesOf(fields: Fields, scope: Scope, failed: boolean, isResponse: boolean): (name: string, value: unknown) => Scope {
  const names = namesOf(fields);
  const isCall = hasAny(names, BESIDE_ARGUMENTS);
  const isRequest = (names.has("method") && names.has("id")) || hasAny(names, TOOLS);
  const code = fields["code"];
  // None of those for success, of gRPC, OpenTelemetry, HTTP or JSON-RPC.
  const hasCodeOfFailure = Number.isInteger(code) && code !== 0 && ((code as number) < 100 || (code as number) >= 400);
  return (name, value) => {
    const words = wordsIn(name);
    if (HIDDEN.test(words) || (isCall && ARGUMENTS_OF_CALLS.has(words)) || (isRequest && words === "params")) return NOTHING;
    if (words === "data" && names.has("returnvalue")) return NOTHING;
    if ((typeof value === "string" || Array.isArray(value)) && QUESTION.test(words)) return NOTHING;
    if (typeof value === "string" && words === "input" && names.has("model")) return NOTHING;
    if (words === "message" && isObject(value) && names.has("response")) return NOTHING;
    if (typeof value === "string" && words === "message" && hasCodeOfFailure) return NOTHING;
    if (isResponse && words === "results") return NOTHING;
    if (isResponse && (words === "resource" || words === "metadata")) return scope && RESPONSES;
    if ((words === "rows" && !isLink(value) && !hasResults(value)) || (TABLES.has(words) && isTable(value, fields))) return scope && RESPONSES;
    return !scope && !failed && RESULT.test(words) ? ANYTHING : scope;
  };
}

/** Whether the rows of a table are messages, with those of a tool among them. */
function hasResults(rows: unknown): boolean {
  const words = (Array.isArray(rows) ? rows.slice(0, 50) : []).flatMap((row) => wordsOf(fieldsOf(row) ?? {}));
  return words.some(([name, word]) => KINDS.has(name) && typeof word === "string" && RESULT.test(word));
}

/** Whether a value is an object of texts, such as a link to rows. */
function isLink(value: unknown): boolean {
  return isObject(value) && Object.values(value).every((each) => typeof each === "string");
}

/** Whether the value of an object is the rows or columns of a table: neither messages nor content blocks. */
function isTable(rows: unknown, fields: Fields): boolean {
  const isDescribed = Object.entries(fields).some(([name, value]) => OF_TABLES.test(wordsIn(name)) && (value ?? null) !== null);
  const described = "columns" in fields ? fields["columns"] : fields["meta"];
  const columns: unknown[] = Array.isArray(described) ? described : [];
  const names = new Set(columns.map((column) => fieldsOf(column)?.["name"] ?? column));
  const first: unknown = Array.isArray(rows) && rows.length ? rows[0] : rows;
  if (Array.isArray(first)) return names.size > 0 || (isDescribed && !first.some(fieldsOf));
  const row = Object.keys(fieldsOf(first) ?? {});
  if (!row.length) return false;
  if (names.size && row.every((name) => names.has(name))) return true;
  return isDescribed && Array.isArray(rows) && !OF_MESSAGES.some((name) => row.includes(name));
}

function toResponse(response: Fields, origins: Origins): Detected | undefined {
  let fields = response;
  let resource = fieldsOf(fields["resource"]);
  if (!resource) return undefined;
  const plain = untyped(resource);
  if (plain !== resource) {
    fields = { results: untyped(response["results"]), resource: plain, metadata: untyped(response["metadata"]) };
    resource = fieldsOf(plain) ?? {};
  }
  const uri = typeof resource["uri"] === "string" ? resource["uri"] : undefined;
  const url = typeof resource["url"] === "string" ? resource["url"] : undefined;
  const metadata = fieldsOf(fields["metadata"]) ?? {};
  const read = (from: Pick<Detected, "uri" | "url">, key?: string) =>
    toDetected(from, key, typeof resource["name"] === "string" ? resource["name"] : "", fields["results"], metadata);
  const [link] = [uri, url].flatMap((text) => (text === undefined ? [] : (linkIn(text, origins) ?? [])));
  if (link) return read({ uri: uri !== undefined && resourceId(uri) === link.id ? uri : link.uri, url: url ?? link.url });
  if ("results" in fields || "metadata" in fields) {
    const address = [url, uri].find((text) => text !== undefined && isWeb(text) && origins.hasResource(text));
    if (address !== undefined) return read({ uri: uriOfURL(address)!, url: address }, address);
  }
  if (!uri?.startsWith("resource://") || resourceId(uri) === undefined) return undefined;
  return isSpecified(fields, metadata) ? read({ uri, url }) : undefined;
}

/** Whether results and metadata are those of the specification. */
function isSpecified(fields: Fields, metadata: Fields): boolean {
  if (!rowsOf(fields["results"]) || !shownColumns(metadata)) return false;
  if (!("total_count" in metadata) && !("totalCount" in metadata)) return false;
  const total = either(metadata, "total_count", "totalCount") ?? null;
  return total === null || toCount(total) !== null;
}

function toDetected(
  from: Pick<Detected, "uri" | "url">, key: string | undefined, name: string, results: unknown, metadata: Fields,
): Detected {
  const totalCount = toCount(either(metadata, "total_count", "totalCount"));
  return {
    ...bare(from.uri, name, from.url, key),
    sample: rowsOf(results),
    totalCount,
    totalCountKind: kindOfTotal(totalCount, either(metadata, "total_count_kind", "totalCountKind")),
    columns: shownColumns(metadata) ?? [],
    expiresAt: readInstant(either(metadata, "expires_at", "expiresAt")),
    isPending: metadata["status"] === "pending",
  };
}

/** A link with a name, such as a resource_link. */
function namedLink({ uri, name }: Fields, origins: Origins): Detected | undefined {
  if (typeof uri !== "string" || typeof name !== "string" || !name) return undefined;
  const link = linkIn(uri, origins);
  return link && bare(link.uri, name, link.url);
}

/** A result of which no more is known. */
export function bare(uri: string, name: string, url?: string, key?: string): Detected {
  const id = resourceId(uri) ?? "";
  return {
    uri, name, url, totalCount: null, totalCountKind: "none", columns: [], expiresAt: null, isPending: false,
    key: isChecked(id) ? id : (key ?? uri),
  };
}

/** A number of rows; DynamoDB and attributes have texts. */
function toCount(raw: unknown): number | null {
  const total = untyped(raw);
  const count = typeof total === "string" && /^\d{1,16}$/.test(total) ? Number(total) : total;
  return isCount(count) ? count : null;
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
export function readInstant(text: unknown): Date | null {
  if (typeof text !== "string" || text.length > 40 || !/^\d{4}-\d\d-\d\d([T ]|$)/.test(text)) return null;
  const moment = new Date(/(Z|[+-]\d\d:?\d\d)$/.test(text) || !/[T ]/.test(text) ? text : `${text}Z`);
  return Number.isNaN(moment.getTime()) ? null : moment;
}

function either(fields: Fields, snake: string, camel: string): unknown {
  return fields[snake] ?? fields[camel];
}
