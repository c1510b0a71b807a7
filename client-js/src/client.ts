/** Finds dual responses in tool results. The client fetches only from configured addresses. */
import { Origins, checkedBaseURL, resourceId } from "./addresses.ts";
import { checkedRetry, type Retry } from "./budget.ts";
import { bare, findDetected, isMoreComplete, readStructure, type Detected } from "./detect.ts";
import { NotConfiguredError, ParseError, isObject } from "./errors.ts";
import { DualResult, readMetadata, unusable, type CallOptions } from "./result.ts";
import { Transport, type OriginOptions, type Settings } from "./transport.ts";

export interface ClientOptions extends OriginOptions {
  /** The address of the server's resources, for results that name none of `origins`; `token` and `headers` are for it. */
  baseUrl?: string;
  /** Addresses of other servers' resources, with their credentials. A result whose URL is below one is fetched there. */
  origins?: Record<string, OriginOptions>;
  /** Milliseconds for one request with its answer; of a stream, for each piece of it. Default: 30,000. */
  timeout?: number;
  /** Bytes of the largest answer, after decompression; of a stream, of its largest row. Default: 64 MB. */
  maximumResponseBytes?: number;
  /** Bytes of the longest stream, and of all pages of a result together. Default: 64 GB. */
  maximumStreamBytes?: number;
  retry?: Retry;
  /** Instead of the runtime's `fetch`. */
  fetch?: typeof fetch;
}

/**
 * Finds dual responses in tool results and fetches their rows.
 *
 *     const client = new DualClient({ baseUrl: "https://api.example.com/resources", token: () => session.token });
 *     for (const result of client.find(messages)) console.log(result.name, (await result.fetchAll()).length);
 */
export class DualClient {
  readonly #origins: Origins;

  /** @throws {NotConfiguredError} an address is no plain http or https address. */
  constructor(options: ClientOptions = {}) {
    const { baseUrl, origins = {} } = options;
    const settings: Settings = {
      fetch: options.fetch ?? ((...request) => globalThis.fetch(...request)),
      timeout: options.timeout ?? 30_000,
      maximumResponseBytes: options.maximumResponseBytes ?? 64 * 1024 ** 2,
      maximumStreamBytes: options.maximumStreamBytes ?? 64 * 1024 ** 3,
      retry: checkedRetry(options.retry),
    };
    const main = baseUrl === undefined ? undefined : new Transport(checkedBaseURL(baseUrl), options, settings);
    const others = Object.entries(origins).map(([address, origin]) => new Transport(checkedBaseURL(address), origin, settings));
    this.#origins = new Origins(main, main ? [main, ...others] : others);
  }

  /**
   * The dual response in a tool result of any SDK: result objects, messages, JSON text, lists of those. Undefined if there
   * is none, or more than one. A result that is marked as an error contains none.
   *
   * @throws {ParseError} with `strict`, instead of returning undefined.
   */
  parse(toolResult: unknown, options: { strict: true }): DualResult;
  parse(toolResult: unknown, options?: { strict?: boolean }): DualResult | undefined;
  parse(toolResult: unknown, { strict = false } = {}): DualResult | undefined {
    const results = this.find(toolResult);
    if (results.length === 1) return results[0];
    if (strict) throw parseError(results);
    return undefined;
  }

  /** The dual response that a structuredContent is. */
  parseStructured(structuredContent: unknown): DualResult | undefined {
    const detected = readStructure(structuredContent, this.#origins);
    return detected && this.#result(detected);
  }

  /** All dual responses in a run result, messages, events or JSON; one for each resource. */
  find(anything: unknown): DualResult[] {
    return findDetected(anything, this.#origins).map((detected) => this.#result(detected));
  }

  /**
   * The dual responses in a stream of events, each as soon as an event contains it. A resource that arrived as a bare link
   * is yielded again when its sample arrives.
   */
  async *findIn(events: AsyncIterable<unknown> | Iterable<unknown>): AsyncGenerator<DualResult, void, undefined> {
    const latest = new Map<string, Detected>();
    for await (const event of events) {
      for (const detected of findDetected(event, this.#origins)) {
        if (!isMoreComplete(detected, latest.get(detected.key))) continue;
        latest.set(detected.key, detected);
        yield this.#result(detected);
      }
    }
  }

  /** The result with an id or a URI, such as `resource://abc123`. It has no sample.
   *
   * @throws {ParseError} it is neither.
   */
  open(idOrURI: string): DualResult {
    const uri = idOrURI.includes("://") ? idOrURI : `resource://${idOrURI}`;
    if (resourceId(uri) === undefined) throw new ParseError("That is not the id of a resource.");
    return this.#result(bare(uri, ""));
  }

  /** The caller's own live results, newest first; the token identifies the caller. They have no samples. */
  async *list({ pageSize = 100, signal }: CallOptions & { pageSize?: number } = {}): AsyncGenerator<DualResult, void, undefined> {
    const transport = this.#origins.main;
    if (!transport) throw new NotConfiguredError("The client has no baseUrl to list the resources of.");
    const cursors = new Set<string>();
    const budget = transport.budget();
    let query: Record<string, string> = { limit: String(pageSize) };
    for (;;) {
      const { body } = await transport.list({ query, signal, budget });
      if (!isObject(body) || !Array.isArray(body["resources"])) throw unusable("it is no list of resources");
      const receivedAt = Date.now();
      for (const entry of body["resources"]) yield this.#listed(entry, transport);
      budget.leaveOut(Date.now() - receivedAt);
      const cursor = body["next_cursor"];
      // A faulty server could repeat its cursors for ever.
      if (typeof cursor !== "string" || cursors.has(cursor)) return;
      cursors.add(cursor);
      budget.page(body["resources"].length, null);
      query = { ...query, cursor };
    }
  }

  #listed(entry: unknown, transport: Transport): DualResult {
    const metadata = readMetadata(entry);
    const detected = {
      uri: metadata.uri, name: metadata.name, totalCount: metadata.total_count, totalCountKind: metadata.total_count_kind,
      columns: metadata.columns, expiresAt: metadata.expiresAt, isPending: metadata.status === "pending", key: metadata.uri,
    };
    const result = new DualResult(detected, this.#origins, transport);
    if (metadata.status === "failed") result.status = "failed";
    return result;
  }

  #result(detected: Detected): DualResult {
    return new DualResult(detected, this.#origins);
  }
}

function parseError(results: readonly DualResult[]): ParseError {
  if (!results.length) {
    return new ParseError("The input contains no dual response.", {
      hint: "Pass the whole tool result; if the call failed, its text says why.",
    });
  }
  return new ParseError(`There are ${results.length} dual responses, and one was expected.`, {
    hint: "Take all of them with client.find().",
    details: { resources: results.map(({ uri }) => uri) },
  });
}
