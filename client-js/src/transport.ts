/** Requests to one configured address: credentials, retries, bounds and time. */
import { requiredId } from "./addresses.ts";
import { Budget, type Retry } from "./budget.ts";
import { FetchError, NotConfiguredError, UNROUTED, fetchError, isObject, pagesOnly } from "./errors.ts";
import { parseJSON } from "./json.ts";
import type { PageBody } from "./wire.ts";

/** A bearer token, or a function that returns one. It is called at the first request, and again after a 401. */
export type Token = string | (() => string | Promise<string>);

/** The credentials and headers for one origin only. */
export interface OriginOptions {
  token?: Token;
  headers?: Record<string, string>;
  /** Of `fetch`: "include" sends the cookies of another site. By default the runtime decides. */
  credentials?: RequestCredentials;
}

export interface Settings {
  fetch: typeof fetch;
  /** Milliseconds for one request with its answer; of a stream, for each piece of it. */
  timeout: number;
  /** Bytes of the largest answer, after decompression; of a stream, of its largest row. */
  maximumResponseBytes: number;
  /** Bytes of the longest stream; of a result that is read page by page, of all its pages. */
  maximumStreamBytes: number;
  retry: Required<Retry>;
}

export interface RequestOptions {
  body?: object | undefined;
  query?: Record<string, string> | undefined;
  /** Below the resource's own address, such as "/pin". */
  below?: string;
  signal?: AbortSignal | undefined;
  /** The request may be sent twice: it reads, or sets the same value again. Default: true. */
  isRepeatable?: boolean;
  /** Of a page that takes too long: let the server keep the rows of the result instead, and answer 202. */
  isDeferrable?: boolean;
  /** Of a call that reads all rows, which waits for a server that is busy or restarts. */
  budget?: Budget | undefined;
}

const CHECK_ADDRESS = "Check that the configured address is that of dual response resources.";
const ROWS_BY_GET = 100;
/** The part of the time of a request after which a page is late: the answer that says so has to arrive in the rest. */
const PATIENCE = 0.8;
const LONGEST_PATIENCE = 86_400;
const RESPOND_ASYNC = "respond-async";
const LONGEST_TOKEN = 16 * 1024;

/** Sends requests to the resources below one address. */
export class Transport {
  readonly settings: Settings;
  readonly base: string;
  /** False for a server that has turned out to have pages only. */
  hasStreams = true;
  /** False for a server that has turned out to have pages by GET only. */
  hasPosts = true;
  private readonly origin: OriginOptions;
  private token: Promise<string> | undefined;
  private skew = 0;
  private hasAnswered = false;

  constructor(base: string, origin: OriginOptions, settings: Settings) {
    this.base = base;
    this.origin = origin;
    this.settings = settings;
  }

  /** The server's time in milliseconds, from the Date of its answers, which a browser hides for other origins. */
  now(): number {
    return Date.now() + this.skew;
  }

  /** The address of a resource below the configured one; a URL in the tool result is not used.
   *
   * @throws {ParseError} the URI has no id.
   */
  urlOf(uri: string): string {
    return `${this.base}/${requiredId(uri)}`;
  }

  /** The answer of a resource as JSON, with the seconds of its Retry-After header; null if it has no content.
   *
   * @throws {FetchError} the request failed, or its answer is unusable or an error.
   */
  async send(method: string, uri: string, options: RequestOptions = {}): Promise<Answer> {
    try {
      return await this.sendTo(method, this.urlOf(uri) + (options.below ?? ""), options);
    } catch (error) {
      await this.requireMoreThanPages(uri, error, options);
      throw error;
    }
  }

  /** Check whether a request was refused because the server has no such route, by a page of the result. One below the
   * resource may be answered as no resource is.
   *
   * @throws {FetchError} it has only pages, or it has no such result.
   */
  async requireMoreThanPages(uri: string, error: unknown, { signal, below }: Pick<RequestOptions, "signal" | "below">): Promise<void> {
    if (!(error instanceof FetchError && (error.isUnrouted || (below && error.status === 404)))) return;
    let answer: unknown;
    try {
      answer = (await this.page(uri, { offset: 0, limit: 1 }, { signal })).body;
    } catch (refusal) {
      if (refusal instanceof FetchError && refusal.isGone) throw refusal;
      return;
    }
    if (isObject(answer) && "data" in answer) throw pagesOnly(error.status, this.hasPosts);
  }

  /** The same for the collection. */
  async list(options: RequestOptions): Promise<Answer> {
    try {
      return await this.sendTo("GET", `${this.base}/`, options);
    } catch (error) {
      if (!(error instanceof FetchError && error.isUnrouted)) throw error;
      const { status } = error;
      throw new FetchError(`The server has no list of results: it answered with status ${status}.`, { status, hint: CHECK_ADDRESS });
    }
  }

  /** The JSON of POST /{id}; of GET /{id}?skip=&limit= from a server without POST.
   *
   * @throws {FetchError} the request failed, or its answer is an error; or the server has GET only, and the request has a sort
   * or a cursor, or the answer may be another page.
   */
  async page(uri: string, body: PageBody, options: RequestOptions): Promise<Answer> {
    let refusal: FetchError | undefined;
    if (this.hasPosts) {
      try {
        return await this.sendTo("POST", this.urlOf(uri), { ...options, body });
      } catch (error) {
        if (!(error instanceof FetchError && error.isUnrouted)) throw error;
        refusal = error;
      }
    }
    try {
      const answer = await this.pageByGet(uri, body, options);
      this.hasPosts = this.hasStreams = false;
      return answer;
    } catch (error) {
      throw error instanceof FetchError && UNROUTED.has(error.status ?? 0) && refusal ? refusal : error;
    }
  }

  private async pageByGet(uri: string, request: PageBody, options: RequestOptions): Promise<Answer> {
    const unsupported = request.sort === undefined ? (request.cursor === undefined ? undefined : "cursor") : "sort";
    // A server of the reference design ignores `skip` where there is no `limit`, and sends everything.
    const { offset = 0, limit = ROWS_BY_GET } = request;
    const query = { skip: String(offset), limit: String(unsupported === undefined ? limit : 1) };
    const answer = await this.sendTo("GET", this.urlOf(uri), { ...options, query, isDeferrable: false });
    const { body } = answer;
    const fields = isObject(body) ? body : {};
    const hasPosition = ["skip", "offset", "next_offset"].some((name) => (fields[name] ?? null) !== null);
    if (!("data" in fields) || (offset && !hasPosition)) {
      throw new FetchError("The server takes no POST, and its answer to GET does not say which rows of the result it has.", {
        status: 200, hint: CHECK_ADDRESS,
      });
    }
    if (unsupported !== undefined) { // said only now: the result may be missing
      throw new FetchError(`The server takes no POST, and its pages by GET have no ${unsupported}.`, {
        hint: "Fetch the rows by offset, in the result's own order.",
      });
    }
    return { ...answer, body: fields };
  }

  private async sendTo(method: string, address: string, options: RequestOptions): Promise<Answer> {
    const url = options.query ? `${address}?${new URLSearchParams(options.query)}` : address;
    const budget = options.budget ?? new Budget(this.settings.retry);
    for (;;) {
      try {
        return await this.sendOnce(method, url, options);
      } catch (error) {
        const delay = error instanceof FetchError ? this.delay(error, budget, options) : undefined;
        if (delay === undefined) throw error;
        await pause(delay, options.signal);
      }
    }
  }

  private delay(error: FetchError, budget: Budget, options: RequestOptions): number | undefined {
    // An answer with an error status is returned to the caller, except in a call that reads all rows.
    const isRepeated = options.isRepeatable !== false && error.mayPass && (options.budget || error.status === undefined);
    if (!isRepeated) return undefined;
    const delay = options.budget ? budget.delay(error.retryAfter) : budget.delay(undefined, this.settings.timeout);
    if (delay === undefined) budget.annotate(error);
    return delay;
  }

  /** The budget of a call that reads all rows. */
  budget(): Budget {
    return new Budget(this.settings.retry, this.settings.maximumStreamBytes);
  }

  private async sendOnce(method: string, url: string, options: RequestOptions): Promise<Answer> {
    const watch = new Watch(this.settings.timeout, options.signal);
    try {
      const seconds = Math.max(1, Math.floor((this.settings.timeout * PATIENCE) / 1_000));
      const prefer = options.isDeferrable ? `${RESPOND_ASYNC}, wait=${Math.min(seconds, LONGEST_PATIENCE)}` : undefined;
      const response = await this.authorized(method, url, options.body, "application/json", watch, prefer);
      await this.checkStatus(response, watch);
      const retryAfter = readRetryAfter(response.headers.get("retry-after"));
      if (response.status === 204) return { body: null, retryAfter };
      const isDeferred = isApplied(response.headers, RESPOND_ASYNC);
      return { body: await this.json(response, watch, options.budget), retryAfter, isDeferred };
    } catch (error) {
      throw this.mapError(error, watch);
    } finally {
      watch.end();
    }
  }

  /** The headers and the body of POST below a resource, after decompression. To stop reading ends the request.
   *
   * @throws {FetchError} the request failed, or its answer is unusable or an error; or the body broke off, then without a status.
   */
  async stream(uri: string, body: object, mediaType: string, signal?: AbortSignal): Promise<Streamed> {
    const watch = new Watch(this.settings.timeout, signal);
    try {
      const response = await this.authorized("POST", `${this.urlOf(uri)}/rows`, body, mediaType, watch);
      await this.checkStatus(response, watch);
      if (mediaTypeOf(response) !== mediaType) {
        throw new FetchError(`The server's answer is not ${mediaType}.`, { status: response.status, hint: CHECK_ADDRESS });
      }
      return { headers: response.headers, pieces: this.pieces(response, watch) };
    } catch (error) {
      watch.end();
      throw this.mapError(error, watch);
    }
  }

  private async *pieces(response: Response, watch: Watch): AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> {
    const reader = response.body?.getReader();
    try {
      for (;;) {
        watch.start();
        const piece = await reader?.read();
        watch.stop();
        if (!piece || piece.done) return;
        yield piece.value;
      }
    } catch (error) {
      throw this.mapError(error, watch);
    } finally {
      // Also when the caller stops reading: the connection is closed, and the server stops the query.
      watch.end();
    }
  }

  private async authorized(
    method: string, url: string, body: object | undefined, accept: string, watch: Watch, prefer?: string,
  ): Promise<Response> {
    const token = await this.bearer();
    const response = await this.request(method, url, body, accept, token, watch, prefer);
    if (response.status !== 401 || typeof this.origin.token !== "function") return response;
    const renewed = await this.renewed(token!);
    if (renewed === token) return response;
    await response.body?.cancel();
    return this.request(method, url, body, accept, renewed, watch, prefer);
  }

  private async request(
    method: string, url: string, body: object | undefined, accept: string, token: string | undefined, watch: Watch,
    prefer?: string,
  ): Promise<Response> {
    const headers = new Headers({ ...this.origin.headers, accept });
    if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
    if (body !== undefined) headers.set("content-type", "application/json");
    if (prefer !== undefined) headers.set("prefer", prefer);
    const { credentials } = this.origin;
    const { fetch } = this.settings;
    const response = await fetch(url, {
      method,
      headers,
      // A redirect would include the token.
      redirect: "manual",
      signal: watch.signal,
      ...(body === undefined ? {} : { body: JSON.stringify(body, plain) }),
      ...(credentials === undefined ? {} : { credentials }),
    });
    this.hasAnswered = true;
    this.noteTime(response.headers);
    return response;
  }

  /** Requests that are refused at the same time share one call of the function. */
  private bearer(): Promise<string> | undefined {
    const { token } = this.origin;
    if (token === undefined) return undefined;
    this.token ??= checkedToken(token).catch((error: unknown) => {
      this.token = undefined;
      throw error;
    });
    return this.token;
  }

  private async renewed(refused: string): Promise<string> {
    if ((await this.bearer()) === refused) this.token = undefined;
    return (await this.bearer())!;
  }

  private noteTime(headers: Headers): void {
    const serverTime = headers.get("age") ? NaN : Date.parse(headers.get("date") ?? "");
    const skew = serverTime - Date.now();
    // Date has whole seconds and takes time to arrive: a smaller difference is no skew.
    if (Math.abs(skew) < TEN_YEARS) this.skew = Math.abs(skew) > 2_000 ? skew : 0;
  }

  private async checkStatus(response: Response, watch: Watch): Promise<void> {
    const { status, headers } = response;
    if (response.type === "opaqueredirect" || (status >= 300 && status < 400)) throw redirected(response);
    if (status < 400) return;
    const error = fetchError(status, await this.problem(response, watch));
    error.requestId = headers.get("x-request-id") ?? undefined;
    error.retryAfter = readRetryAfter(headers.get("retry-after"));
    throw error;
  }

  private async problem(response: Response, watch: Watch): Promise<unknown> {
    try {
      return await this.json(response, watch);
    } catch (error) {
      // Such as the error page of a proxy: the status is enough.
      if (error instanceof FetchError) return undefined;
      throw error;
    }
  }

  private async json(response: Response, watch: Watch, budget?: Budget): Promise<unknown> {
    const { status } = response;
    if (!/^application\/(json|[\w.-]+\+json)$/.test(mediaTypeOf(response))) {
      throw new FetchError("The server's answer is not JSON.", { status, hint: CHECK_ADDRESS });
    }
    const body = await this.read(response, watch);
    budget?.spend(body.length);
    try {
      return parseJSON(new TextDecoder("utf-8", { fatal: true }).decode(body));
    } catch (error) {
      throw new FetchError("The server's answer is not valid JSON.", { status, cause: error });
    }
  }

  private async read(response: Response, watch: Watch): Promise<Uint8Array> {
    const body = new Collector();
    const reader = response.body?.getReader();
    for (;;) {
      const piece = await reader?.read();
      if (!piece || piece.done) return body.take();
      body.add(piece.value);
      if (body.size > this.settings.maximumResponseBytes) {
        watch.end();
        throw new FetchError(`The server's answer is larger than ${this.settings.maximumResponseBytes} bytes.`, {
          status: response.status,
          hint: "Ask for fewer rows at once, or raise the client's maximumResponseBytes.",
        });
      }
    }
  }

  private mapError(error: unknown, watch: Watch): unknown {
    if (watch.caller?.aborted) return watch.caller.reason;
    if (error instanceof FetchError || error instanceof NotConfiguredError) return error;
    if (watch.isOver) {
      return new FetchError(`The server sent no complete answer within ${this.settings.timeout} ms.`, { code: "TIMEOUT", cause: error });
    }
    const mapped = new FetchError("The request to the server failed.", {
      cause: error,
      hint: "Check that the address is right, that the server runs and, in a browser, that its cors_origins name this page's origin.",
    });
    // fetch does not distinguish refused connections from broken ones. If no server has ever answered, the address may be wrong.
    mapped.mayPass = this.hasAnswered;
    return mapped;
  }
}

export interface Answer {
  body: unknown;
  retryAfter: number | undefined;
  /** In its place, the server keeps the rows of the result. */
  isDeferred?: boolean;
}

export interface Streamed {
  headers: Headers;
  pieces: AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined>;
}

/** Whether a preference of the request was applied (RFC 7240). */
function isApplied(headers: Headers, preference: string): boolean {
  return (headers.get("preference-applied") ?? "").toLowerCase().split(/[\s,;]+/).includes(preference);
}

const TEN_YEARS = 3_650 * 86_400_000;

/** Ends a request when its time is over or its caller gives up. */
class Watch {
  isOver = false;
  readonly caller: AbortSignal | undefined;
  private readonly milliseconds: number;
  private readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(milliseconds: number, caller: AbortSignal | undefined) {
    this.milliseconds = milliseconds;
    this.caller = caller;
    if (caller?.aborted) this.controller.abort(caller.reason);
    else caller?.addEventListener("abort", this.abort);
    this.start();
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  start(): void {
    this.stop();
    this.timer = setTimeout(() => {
      this.isOver = true;
      this.controller.abort();
    }, this.milliseconds);
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  /** Close the connection if it is still open. */
  end(): void {
    this.stop();
    this.caller?.removeEventListener("abort", this.abort);
    this.controller.abort();
  }

  private readonly abort = (): void => this.controller.abort(this.caller?.reason);
}

/** Waits, unless the caller gives up. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const ended = (): void => {
      signal?.removeEventListener("abort", ended);
      clearTimeout(timer);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(ended, milliseconds);
    signal?.addEventListener("abort", ended);
    if (signal?.aborted) ended();
  });
}

/** Copies pieces into one array that grows. Stored alone, a piece of one byte takes hundreds of bytes. */
export class Collector {
  size = 0;
  private bytes = new Uint8Array();

  add(piece: Uint8Array): void {
    const size = this.size + piece.length;
    if (size > this.bytes.length) {
      const larger = new Uint8Array(Math.max(size, 2 * this.bytes.length));
      larger.set(this.bytes.subarray(0, this.size));
      this.bytes = larger;
    }
    this.bytes.set(piece, this.size);
    this.size = size;
  }

  /** All bytes that were added; none are left. */
  take(): Uint8Array {
    const bytes = this.bytes.subarray(0, this.size);
    this.bytes = new Uint8Array();
    this.size = 0;
    return bytes;
  }
}

async function checkedToken(token: Token): Promise<string> {
  const value: unknown = typeof token === "function" ? await token() : token;
  if (typeof value !== "string" || value.length > LONGEST_TOKEN || !/^[\x21-\x7e]+$/.test(value)) {
    // The message omits the value, which may be a valid token with a line break.
    throw new NotConfiguredError("token is not a token.", { hint: "Give the token alone, a string without spaces." });
  }
  return value;
}

function mediaTypeOf(response: Response): string {
  return (response.headers.get("content-type") ?? "").split(";")[0]!.trim().toLowerCase();
}

function redirected(response: Response): FetchError {
  const location = response.headers.get("location");
  const status = response.status || undefined;
  if (location !== null && leavesOrigin(response.url, location)) {
    return new FetchError("The server redirects to another host; it was not followed.", { status, code: "UNTRUSTED_ORIGIN" });
  }
  return new FetchError("The server redirects; redirects are not followed.", { status: status ?? 302, hint: CHECK_ADDRESS });
}

function leavesOrigin(url: string, location: string): boolean {
  try {
    return new URL(location, url).origin !== new URL(url).origin;
  } catch {
    return true;
  }
}

/** Seconds of a Retry-After header (RFC 9110, 10.2.3). */
function readRetryAfter(header: string | null): number | undefined {
  if (!header) return undefined;
  if (/^\d+$/.test(header)) return Number(header.slice(0, 9));
  const moment = Date.parse(header);
  return Number.isNaN(moment) ? undefined : Math.max(0, (moment - Date.now()) / 1_000);
}

/** Values that JSON does not have, as results show them. JSON.stringify refuses a `bigint`, and writes null for NaN. */
function plain(this: Record<string, unknown>, name: string, written: unknown): unknown {
  // A Buffer of Node.js has a toJSON(), which makes an object of it.
  const value = this[name] instanceof Uint8Array ? this[name] : written;
  if (typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value))) return String(value);
  return value instanceof Uint8Array ? btoa(Array.from(value, (byte) => String.fromCharCode(byte)).join("")) : value;
}
