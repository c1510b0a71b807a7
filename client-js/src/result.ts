/** A dual response in the application: pages, streams, files and the life of the resource. */
import { isChecked, notConfigured, requiredId, type Origins } from "./addresses.ts";
import { isCount, kindOfTotal, readColumns, readInstant, readStructure, type Detected } from "./detect.ts";
import { Budget } from "./budget.ts";
import { FetchError, isObject, rowsForMetadata } from "./errors.ts";
import { decodeRows, UNFIT } from "./json.ts";
import { download, isRows, rowBlocks, type Download } from "./stream.ts";
import { pause, type Answer, type Transport } from "./transport.ts";
import type {
  Column, Condition, PageBody, Profile, QueryBody, ResourceDescription, Row, RowsBody, SortKey, SqlBody, StreamFormat, TotalCountKind,
} from "./wire.ts";

/** An order: "-enrollment,name", where `-` is descending, or a key, or several keys, the first key first. */
export type Sort = string | SortKey | readonly (string | SortKey)[];

export interface CallOptions {
  signal?: AbortSignal;
}

export interface PageOptions extends CallOptions {
  /** Position of the first row, from 0. */
  offset?: number;
  /** `nextCursor` or `previousCursor` of a page, instead of an offset; with the same sort. */
  cursor?: string;
  /** The most rows; the server's default otherwise. */
  limit?: number;
  sort?: Sort;
  /** Names of the columns, in this order; all by default. */
  columns?: readonly string[];
  /** Which rows: conditions that all hold. The database applies them. */
  filters?: Condition | readonly Condition[];
  /** Whole numbers as `bigint` and bytes as `Uint8Array`, whatever their size. */
  typed?: boolean;
}

export type PagesOptions = Omit<PageOptions, "offset" | "cursor">;
/** The page of an answer to a query, which itself has columns, filters and an order. */
export type AnswerOptions = Omit<PageOptions, "columns" | "filters" | "sort">;

export interface StreamOptions extends CallOptions {
  /** Names of the columns, in this order; all by default. */
  columns?: readonly string[];
  /** Names of columns to return as text, whatever their type. */
  textColumns?: readonly string[];
  sort?: Sort;
  /** The most rows. */
  limit?: number;
}

export interface RowOptions extends StreamOptions {
  typed?: boolean;
  /** Rows of a batch; by default a batch is what has arrived. */
  batchSize?: number;
}

/** A query over the result, as JSON: see docs/querying.md. */
export type Question = Pick<QueryBody, "columns" | "filters" | "group_by" | "aggregates" | "having" | "order_by">;
export type SqlParameters = NonNullable<SqlBody["parameters"]>;

/** One page of rows. */
export interface Page {
  data: Row[];
  columns: Column[];
  totalCount: number | null;
  totalCountKind: TotalCountKind;
  /** Position of the first row of `data`; of a page by cursor, counted from the page that had the cursor. */
  offset: number;
  hasNext: boolean;
  hasPrevious: boolean;
  nextOffset: number | null;
  nextCursor: string | null;
  previousCursor: string | null;
  /** "partial": the order of the rows may change from one request to the next; pages may repeat rows or lose some. Null: the server does not say. */
  order: string | null;
  /** The rows come from the server's cache. */
  cached: boolean;
}

/** The metadata of a resource; the server reads no rows for it. */
export type Metadata = Omit<ResourceDescription, "created_at" | "expires_at"> & { createdAt: Date | null; expiresAt: Date | null };

/** The sample that the model has read, and the methods that fetch every row. */
export class DualResult {
  readonly name: string;
  /** The URI in the tool result, such as `resource://abc123`. */
  readonly uri: string;
  /** The address of the rows. Without a configured address it is the URL in the tool result, which is never fetched. */
  readonly url: string | undefined;
  /** The rows in the tool result; empty if it had only a link. An SDK may have rounded their numbers. */
  readonly sample: Row[];
  /** All rows; null if the server did not count them. */
  totalCount: number | null;
  totalCountKind: TotalCountKind;
  /** Of the sample; empty for a bare link. */
  columns: Column[];
  /** Null for a pinned result, or if it is unknown. Every page updates it. */
  expiresAt: Date | null;
  /** From the last answer of the server. */
  status: "pending" | "ready" | "failed";
  readonly #origins: Origins;
  readonly #transport: Transport | undefined;

  /** @internal */
  constructor(detected: Detected, origins: Origins, transport = origins.choose(detected.uri, detected.url)) {
    this.name = detected.name;
    this.uri = detected.uri;
    this.url = transport ? transport.urlOf(detected.uri) : detected.url;
    this.sample = detected.sample ?? [];
    this.totalCount = detected.totalCount;
    this.totalCountKind = detected.totalCountKind;
    this.columns = detected.columns;
    this.expiresAt = detected.expiresAt;
    this.status = detected.isPending ? "pending" : "ready";
    this.#origins = origins;
    this.#transport = transport;
  }

  /** Milliseconds until it expires, by the server's clock once it has answered; null if it is pinned or unknown. */
  timeLeft(): number | null {
    return this.expiresAt && this.expiresAt.getTime() - (this.#transport?.now() ?? Date.now());
  }

  isExpired(): boolean {
    return (this.timeLeft() ?? 1) <= 0;
  }

  /** One page. Where it takes too long, the call waits until the server has kept the rows, if it keeps any. */
  async page(options: PageOptions = {}): Promise<Page> {
    requireKnown("page", options, [...PAGES, "offset", "cursor"]);
    const { below, body } = pageRequest(options);
    return this.#page(below, { ...body, ...start(options) }, options);
  }

  /** All pages in order, each by the cursor of the last. Concurrent inserts and deletes never duplicate or drop other rows. */
  async *pages(options: PagesOptions = {}): AsyncGenerator<Page, void, undefined> {
    requireKnown("pages", options, PAGES);
    const { limit } = options;
    const { below, body } = pageRequest(options);
    const budget = this.#configured().budget();
    const cursors = new Set<string>();
    let at: PageOptions = {};
    for (;;) {
      const window = start(limit === undefined ? at : { ...at, limit });
      const page = await this.#page(below, { ...body, ...window }, options, budget);
      const receivedAt = Date.now();
      yield page;
      budget.leaveOut(Date.now() - receivedAt);
      if (!page.hasNext) return;
      const { nextCursor, nextOffset } = page;
      if (nextCursor !== null && cursors.has(nextCursor)) {
        throw new FetchError("The server returns the same page repeatedly.", { status: 200 });
      }
      if (nextCursor !== null) cursors.add(nextCursor);
      budget.page(page.data.length, page.totalCountKind === "exact" ? page.totalCount : null);
      at = nextCursor === null ? { offset: nextOffset! } : { cursor: nextCursor };
    }
  }

  /** All rows in order, in batches, of which only a few are in memory at once. The stream resumes after a broken connection. */
  async *stream(options: RowOptions = {}): AsyncGenerator<Row[], void, undefined> {
    requireKnown("stream", options, [...STREAM, "typed", "batchSize"]);
    const size = options.batchSize ?? 0;
    let pending: Row[] = [];
    for await (const rows of this.#rows(options)) {
      if (!size) {
        yield rows;
        continue;
      }
      for (const row of rows) pending.push(row);
      const end = pending.length - (pending.length % size);
      for (let at = 0; at < end; at += size) yield pending.slice(at, at + size);
      if (end) pending = pending.slice(end);
    }
    if (pending.length) yield pending;
  }

  /** All rows in one array; `stream` is for results that do not fit in memory. */
  async fetchAll(options: Omit<RowOptions, "batchSize"> = {}): Promise<Row[]> {
    requireKnown("fetchAll", options, [...STREAM, "typed", "batchSize"]);
    const blocks: Row[][] = [];
    for await (const rows of this.#rows(options)) blocks.push(rows);
    return blocks.flat();
  }

  /** All rows as a file: "csv", "ndjson", "json", "arrow", "parquet" or "xlsx". */
  async download(format: StreamFormat, options: StreamOptions & { guardFormulas?: boolean } = {}): Promise<Download> {
    requireKnown("download", options, [...STREAM, "guardFormulas"]);
    const body = { ...rowsBody(options), ...(options.guardFormulas === undefined ? {} : { guard_formulas: options.guardFormulas }) };
    const transport = this.#configured();
    return download(transport, this.uri, format, body, options.signal).catch(async (error: unknown) => {
      await transport.requireMoreThanPages(this.uri, error, { signal: options.signal, below: "/rows" });
      throw error;
    });
  }

  /** One page of the answer to a query over the result. */
  async query(question: Question, options: AnswerOptions = {}): Promise<Page> {
    requireKnown("query", options, [...CALL, "offset", "cursor", "limit", "typed"]);
    return this.#page("/query", { ...question, ...start(options) }, options);
  }

  /** One page of the answer to one SELECT over the relation `data`, which is this result. `parameters` are values of `:name`. */
  async sql(sql: string, parameters: SqlParameters = {}, options: AnswerOptions = {}): Promise<Page> {
    requireKnown("sql", options, [...CALL, "offset", "cursor", "limit", "typed"]);
    return this.#page("/sql", { sql, parameters, ...start(options) }, options);
  }

  /** Create a new result from a query. It has its own link and lifetime. */
  async refine(question: Question, options: CallOptions & { name?: string; limit?: number; offset?: number } = {}): Promise<DualResult> {
    requireKnown("refine", options, [...CALL, "name", "limit", "offset"]);
    const { signal, ...more } = options;
    const transport = this.#configured();
    const body = { name: "Refined", ...question, ...more };
    const answer = await transport.send("POST", this.uri, { body, below: "/refine", signal, isRepeatable: false });
    const detected = readStructure(answer.body);
    if (!detected) throw unusable("it is no dual response");
    return new DualResult(detected, this.#origins, transport);
  }

  /** Statistics of the columns: of the first rows, or with "full" of all rows. */
  async profile(kind: "sample" | "full" = "sample", options: CallOptions & { columns?: readonly string[] } = {}): Promise<Profile> {
    requireKnown("profile", options, [...CALL, "columns"]);
    const { columns, signal } = options;
    const query = { kind, ...(columns ? { columns: columns.join(",") } : {}) };
    const { body } = await this.#configured().send("GET", this.uri, { query, below: "/profile", signal });
    if (!isObject(body) || !Array.isArray(body["columns"])) throw unusable("it is no profile");
    return body as Profile;
  }

  /** The current metadata of the resource. `count` counts the rows again: "exact", "estimated", "capped:10000" or "auto". */
  async metadata(options: CallOptions & { count?: string } = {}): Promise<Metadata> {
    requireKnown("metadata", options, [...CALL, "count"]);
    const { count, signal } = options;
    const answer = await this.#configured().send("GET", this.uri, { query: count === undefined ? undefined : { count }, signal });
    return this.#update(readMetadata(answer.body));
  }

  /** Wait for a query that still runs.
   *
   * @throws {FetchError} RESOURCE_FAILED: the query failed.
   */
  async waitUntilReady({ signal }: CallOptions = {}): Promise<Metadata> {
    const metadata = await this.#waitUntil(({ status }) => status !== "pending", signal);
    if (metadata.error && metadata.status === "failed") throw failed(metadata.error);
    return metadata;
  }

  /** The first metadata that fulfil a condition. */
  async #waitUntil(isSettled: (metadata: Metadata) => boolean, signal?: AbortSignal): Promise<Metadata> {
    const transport = this.#configured();
    let budget = new Budget(transport.settings.retry);
    for (let wait = FIRST_WAIT; ; wait = Math.min(2 * wait, LONGEST_WAIT)) {
      let requested: number | undefined;
      try {
        const answer = await transport.send("GET", this.uri, { signal });
        const metadata = this.#update(readMetadata(answer.body));
        if (isSettled(metadata)) return metadata;
        requested = answer.retryAfter;
        budget = new Budget(transport.settings.retry);
      } catch (error) {
        const delay = error instanceof FetchError && error.mayPass ? budget.delay(error.retryAfter) : undefined;
        if (delay === undefined) throw error;
        requested = (error as FetchError).retryAfter;
      }
      await pause(Math.max(wait, 1_000 * Math.min(requested ?? 0, LONGEST_RETRY_AFTER)), signal);
    }
  }

  /**
   * Let the server run the query again and keep its rows, and wait for its end. Until then, requests return the old rows.
   * Afterwards, cursors and streams of the old rows are refused.
   *
   * @throws {FetchError} RESOURCE_FAILED: the query failed; the result is unchanged.
   */
  async refresh({ signal }: CallOptions = {}): Promise<Metadata> {
    const answer = await this.#configured().send("POST", this.uri, { below: "/refresh", signal, isRepeatable: false });
    return this.#waitForRows(readMetadata(answer.body), signal);
  }

  /** The metadata of the result when the server has kept its rows; `described` are those that are known. */
  async #waitForRows(described?: Metadata, signal?: AbortSignal): Promise<Metadata> {
    let metadata = described && this.#update(described);
    if (!metadata || metadata.kept?.rows_so_far !== undefined) metadata = await this.#waitUntil(({ kept }) => kept?.rows_so_far === undefined, signal);
    if (metadata.kept?.error) throw failed(metadata.kept.error);
    return metadata;
  }

  /** Keep the resource until it is deleted. A resource that no longer exists is an error. */
  async pin(options: CallOptions = {}): Promise<boolean> {
    requireKnown("pin", options, CALL);
    await this.#configured().send("PUT", this.uri, { signal: options.signal });
    this.expiresAt = null;
    return true;
  }

  /** Let a pinned resource expire again, one lifetime from now. True, also when it was not pinned. */
  async unpin({ signal }: CallOptions = {}): Promise<boolean> {
    const { body } = await this.#configured().send("DELETE", this.uri, { below: "/pin", signal });
    this.#noteExpiry(body);
    return true;
  }

  /** Delete the resource; false if it no longer exists. */
  async delete({ signal }: CallOptions = {}): Promise<boolean> {
    try {
      await this.#configured().send("DELETE", this.uri, { signal, isRepeatable: false });
      return true;
    } catch (error) {
      if (error instanceof FetchError && error.isGone) return false;
      throw error;
    }
  }

  async *#rows(options: RowOptions): AsyncGenerator<Row[], void, undefined> {
    const transport = this.#configured();
    const stopTouching = this.#keepAlive();
    let hasRows = false;
    try {
      for await (const rows of transport.hasStreams ? rowBlocks(transport, this.uri, rowsBody(options), options.signal) : []) {
        hasRows = true;
        yield options.typed ? decodeRows(rows, await this.#typedColumns(rows, options)) : rows;
      }
      if (!transport.hasStreams) yield* this.#rowsOfPages(options);
    } catch (error) {
      // Either the resource does not exist, or the server has no streams.
      const mayHavePages = error instanceof FetchError && (error.isUnrouted || error.status === 404);
      if (hasRows || !mayHavePages || !transport.hasStreams) throw error;
      yield* this.#rowsOfPages(options);
    } finally {
      stopTouching();
    }
  }

  /** All rows from a server without streams. */
  async *#rowsOfPages(options: RowOptions): AsyncGenerator<Row[], void, undefined> {
    const { columns, textColumns = [], batchSize = 0, limit = Infinity, sort } = options;
    if (textColumns.length) {
      throw new FetchError("The server has no streams, and its pages have no textColumns.", {
        hint: "Leave textColumns out, and write the values as text yourself.",
      });
    }
    const transport = this.#configured();
    const budget = transport.budget();
    for (let offset: number | null = 0; offset !== null && offset < limit; ) {
      const body = { offset, limit: Math.min(batchSize || ROWS_OF_PAGE, limit - offset), ...sorted(sort) };
      const page: Page = await this.#page("", body, options, budget, false);
      // Only after a page: for a missing resource the answer is 404, too.
      transport.hasStreams = false;
      offset = page.nextOffset;
      if (offset !== null) budget.page(page.data.length, page.totalCountKind === "exact" ? page.totalCount : null);
      const receivedAt = Date.now();
      yield withColumns(page.data, columns && namesOf(columns));
      budget.leaveOut(Date.now() - receivedAt);
    }
  }

  /** Reads one row whenever half of the lifetime is over, as long as that extends it. Returns the function that ends this. */
  #keepAlive(): () => void {
    const controller = new AbortController();
    const { signal } = controller;
    const touch = async (): Promise<void> => {
      for (let lifetime = this.timeLeft(); lifetime !== null && lifetime > 0; ) {
        const wait = Math.min(Math.max(lifetime / 2, SHORTEST_LIFE), LONGEST_TIMER);
        await pause(wait, signal);
        await this.#page("", { offset: 0, limit: 1 }, { signal }, undefined, false);
        const after = this.timeLeft();
        lifetime = after !== null && after > lifetime - wait ? after : null;
      }
    };
    touch().catch(() => {
      // The application's next request fails with the same error.
    });
    return () => controller.abort();
  }

  async #page(below: string, body: object, options: PageOptions, budget?: Budget, isDeferrable = true): Promise<Page> {
    const transport = this.#configured();
    const read = (isDeferrable: boolean): Promise<Answer> => {
      const how = { below, signal: options.signal, budget, isDeferrable };
      return below ? transport.send("POST", this.uri, { ...how, body }) : transport.page(this.uri, body, how);
    };
    // A cursor of the database's rows is refused among kept ones, and the header `Prefer` perhaps by another server's CORS.
    const mayDefer = isDeferrable && (body as PageBody).cursor === undefined && isChecked(requiredId(this.uri));
    let { body: answer, isDeferred } = await read(mayDefer);
    if (isDeferred) {
      const startedAt = Date.now();
      await this.#waitForRows(undefined, options.signal);
      budget?.leaveOut(Date.now() - startedAt);
      ({ body: answer } = await read(false));
    }
    const page = readPage(answer, (body as PageBody).cursor === undefined ? (options.offset ?? (body as PageBody).offset ?? 0) : undefined);
    requireConfirmed(page, body);
    if (!below) {
      if (!page.columns.length) page.columns = this.columns;
      this.#noteExpiry(answer);
    }
    if (options.typed) decodeRows(page.data, page.columns);
    return page;
  }

  /** A tool result of very many columns names only the first. */
  async #typedColumns(rows: Row[], { signal, textColumns = [] }: StreamOptions): Promise<Column[]> {
    const width = Object.keys(rows[0] ?? {}).filter((name) => name !== UNFIT).length;
    if (!this.columns.length || width > this.columns.length) this.columns = (await this.metadata(signal ? { signal } : {})).columns;
    const texts = namesOf(textColumns);
    return this.columns.filter(({ name }) => !texts.includes(name));
  }

  #update(metadata: Metadata): Metadata {
    this.expiresAt = metadata.expiresAt;
    this.totalCount = metadata.total_count;
    this.totalCountKind = metadata.total_count_kind;
    this.status = metadata.status === "pinned" ? "ready" : metadata.status;
    return metadata;
  }

  #noteExpiry(answer: unknown): void {
    if (isObject(answer) && "expires_at" in answer) this.expiresAt = readInstant(answer["expires_at"]);
  }

  #configured(): Transport {
    if (!this.#transport) throw notConfigured(this.url, this.#origins.all.length > 0);
    return this.#transport;
  }
}

/** Rows of a page, of a server without streams. */
const ROWS_OF_PAGE = 500;
/** Milliseconds: no lifetime is extended more often. */
const SHORTEST_LIFE = 100;
const LONGEST_TIMER = 86_400_000;
const FIRST_WAIT = 100;
const LONGEST_WAIT = 5_000;
/** The most seconds that a server may request between two requests for the metadata. */
const LONGEST_RETRY_AFTER = 60;

function start({ offset, cursor, limit }: PageOptions): PageBody {
  if (cursor !== undefined && offset) throw new TypeError("Give either a cursor or an offset.");
  return { ...(cursor === undefined ? { offset: offset ?? 0 } : { cursor }), ...(limit === undefined ? {} : { limit }) };
}

/** One key as an object, as the specification has it: the reference server drops a list without an error. */
function sorted(sort: Sort | undefined): { sort?: SortKey | SortKey[] } {
  if (sort === undefined) return {};
  const keys = keysOf(sort);
  return { sort: keys.length === 1 ? keys[0]! : keys };
}

function orderedBy(sort: Sort | undefined): Pick<QueryBody, "order_by"> {
  const toKey = ({ field, ...more }: SortKey): { column: string; order?: "asc" | "desc" } => ({ column: field, ...more });
  return sort === undefined ? {} : { order_by: keysOf(sort).map(toKey) };
}

function keysOf(sort: Sort): SortKey[] {
  if (typeof sort === "string") return sort.split(",").map((key) => keyOf(key.trim()));
  return [sort].flat().map((key) => (typeof key === "string" ? keyOf(key) : key));
}

function keyOf(text: string): SortKey {
  return text.startsWith("-") ? { field: text.slice(1), order: "desc" } : { field: text, order: "asc" };
}

/** Of a page of the rows, or with columns or filters, of the answer to a query: the route below the resource, and the body. */
function pageRequest({ columns, filters, sort }: PagesOptions): { below: string; body: object } {
  if (columns === undefined && filters === undefined) return { below: "", body: sorted(sort) };
  const conditions = filters === undefined ? {} : { filters: [filters].flat() };
  return { below: "/query", body: { ...(columns ? { columns: namesOf(columns) } : {}), ...conditions, ...orderedBy(sort) } };
}

/** Names of columns; a text without types is read as a sort is. */
function namesOf(names: readonly string[] | string): string[] {
  return typeof names === "string" ? names.split(",").map((name) => name.trim()) : [...names];
}

function rowsBody(options: StreamOptions): RowsBody {
  const { columns, textColumns, limit, sort } = options;
  return {
    ...(columns ? { columns: namesOf(columns) } : {}),
    ...(textColumns ? { text_columns: namesOf(textColumns) } : {}),
    ...(limit === undefined ? {} : { limit }),
    ...sorted(sort),
  };
}

/** The requested page. An answer that could lose or repeat rows is an error. */
function readPage(answer: unknown, requested: number | undefined): Page {
  if (!isObject(answer) || !isRows(answer["data"])) throw unusable("it is no page of rows");
  const { data } = answer;
  // The reference design has other names, where pages are read by GET.
  const start = answer["offset"] ?? answer["skip"];
  const hasPrevious = answer["has_previous"] ?? answer["has_prev"];
  const offset = requested ?? start;
  const columns = readColumns(answer["columns"]);
  if (!isCount(offset) || typeof answer["has_next"] !== "boolean" || !columns) throw unusable("it is no page of rows");
  const end = offset + data.length;
  if ((start ?? offset) !== offset) throw unusable("it starts at another row than was asked for");
  if ((answer["returned_count"] ?? data.length) !== data.length) throw unusable("it has fewer or more rows than it says");
  if (answer["has_next"] && (answer["next_offset"] ?? end) !== end) throw unusable("the next page would not follow its last row");
  const total = answer["total_count"] ?? null;
  if (total !== null && !isCount(total)) throw unusable("its total_count is no number of rows");
  // A faulty server could announce pages for ever.
  const hasNext = answer["has_next"] && data.length > 0;
  return {
    data,
    columns,
    totalCount: total,
    totalCountKind: kindOfTotal(total, answer["total_count_kind"]),
    offset,
    hasNext,
    hasPrevious: typeof hasPrevious === "boolean" ? hasPrevious : offset > 0,
    nextOffset: hasNext ? end : null,
    nextCursor: stringOrNull(answer["next_cursor"]),
    previousCursor: stringOrNull(answer["previous_cursor"]),
    order: stringOrNull(answer["order"]),
    cached: answer["cached"] === true,
  };
}

/** Refuses a page of a server that says nothing of the order: it may have ignored a cursor, several sort keys, or a query. */
function requireConfirmed(page: Page, request: PageBody): void {
  if (page.order !== null) return;
  const parts = Array.isArray(request.sort) ? ["several sort keys"] : [];
  for (const key of Object.keys(request)) {
    // A page that has rows before it is not the first: the server has read the cursor.
    const isConfirmed = key === "cursor" && page.previousCursor !== null;
    if (!EVERY_SERVER_HAS.has(key) && !isConfirmed) parts.push(PARTS[key] ?? key);
  }
  if (!parts.length) return;
  throw new FetchError(`The server does not confirm ${parts[0]}: it may have ignored this part of the request.`, {
    status: 200,
    hint: "Sort by one key, and read the pages by offset. A server of dualsql has the rest.",
  });
}

const EVERY_SERVER_HAS = new Set(["offset", "limit", "sort"]);
const PARTS: Record<string, string> = { cursor: "a cursor", sql: "the SQL text" };

/** The rows with only these columns, in this order. */
function withColumns(rows: Row[], names: readonly string[] | undefined): Row[] {
  if (names === undefined) return rows;
  return rows.map((row) => {
    const missing = names.find((name) => !Object.hasOwn(row, name));
    if (missing === undefined) return Object.fromEntries(names.map((name) => [name, row[name]]));
    throw new FetchError(`The rows have no column "${missing.slice(0, 100)}".`, {
      status: 200, hint: `They have: ${Object.keys(row).slice(0, 20).join(", ")}.`,
    });
  });
}

const CALL = ["signal"];
const PAGES = [...CALL, "columns", "filters", "limit", "sort", "typed"];
const STREAM = [...CALL, "columns", "textColumns", "sort", "limit"];

/** Throws a TypeError for an option that a method does not have: it would be ignored, and with it which rows are asked for. */
function requireKnown(method: string, options: object, names: readonly string[]): void {
  if (!isObject(options)) throw new TypeError(`The options of ${method}() are no object.`);
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown !== undefined) throw new TypeError(`${method}() has no option "${unknown.slice(0, 100)}". It has: ${names.join(", ")}.`);
}

/** The answer of GET /{id}. */
export function readMetadata(answer: unknown): Metadata {
  if (isObject(answer) && "data" in answer && !("status" in answer)) throw rowsForMetadata();
  const columns = isObject(answer) ? readColumns(answer["columns"]) : undefined;
  if (!isObject(answer) || !STATUSES.has(answer["status"]) || !columns) throw unusable("it is no description of a resource");
  const total = answer["total_count"] ?? null;
  if (total !== null && !isCount(total)) throw unusable("its total_count is no number of rows");
  const { created_at: createdAt, expires_at: expiresAt, name = "", uri = "", ...rest } = answer as unknown as ResourceDescription;
  if (typeof name !== "string" || typeof uri !== "string") throw unusable("its name or its uri is no text");
  return {
    ...rest,
    name,
    uri,
    columns,
    total_count: total,
    total_count_kind: kindOfTotal(total, answer["total_count_kind"]),
    createdAt: readInstant(createdAt),
    expiresAt: readInstant(expiresAt),
  };
}

const STATUSES = new Set<unknown>(["pending", "ready", "failed", "pinned"]);

function stringOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function failed(error: unknown): FetchError {
  const problem = isObject(error) ? error : {};
  const message = typeof problem["message"] === "string" ? problem["message"] : "The server does not say why.";
  const hint = typeof problem["hint"] === "string" ? problem["hint"] : undefined;
  return new FetchError(`The query failed: ${message}`, { status: 409, code: "RESOURCE_FAILED", hint, details: { error } });
}

export function unusable(reason: string): FetchError {
  return new FetchError(`The server's answer cannot be used: ${reason}.`, {
    status: 200,
    hint: "Check that the configured address is that of dual response resources.",
  });
}
