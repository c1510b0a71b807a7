/** The errors of the client, and their construction from an answer of the server. */

export interface ErrorFields {
  code?: string | undefined;
  hint?: string | undefined;
  details?: Record<string, unknown> | undefined;
  cause?: unknown;
}

/** The root of all errors of this package. An aborted call rejects with the `reason` of its signal instead. */
export class DualError extends Error {
  /** A stable name: the server's own, or PARSE_ERROR, NOT_CONFIGURED, FETCH_ERROR and so on. */
  readonly code: string;
  /** What to do next, or an empty string. */
  readonly hint: string;
  /** JSON values that a program can use. */
  readonly details: Record<string, unknown>;

  constructor(message: string, code: string, fields: ErrorFields = {}) {
    super(message, fields.cause === undefined ? undefined : { cause: fields.cause });
    this.name = new.target.name;
    this.code = fields.code ?? code;
    this.hint = fields.hint ?? "";
    this.details = fields.details ?? {};
  }
}

/** The input has no dual response, or several; or a column has a value that it cannot have (PARSE_ERROR). */
export class ParseError extends DualError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, "PARSE_ERROR", fields);
  }
}

/** The client has no address to fetch from, or no usable token (NOT_CONFIGURED). */
export class NotConfiguredError extends DualError {
  constructor(message: string, fields: ErrorFields = {}) {
    super(message, "NOT_CONFIGURED", { hint: CONFIGURE, ...fields });
  }
}

const CONFIGURE = 'Give the client its server\'s address: new DualClient({ baseUrl: "https://api.example.com/resources" }).';

/**
 * A request failed. `code` is the server's own or
 *
 * - FETCH_ERROR: the request failed, or its answer cannot be used
 * - TIMEOUT: no complete answer in time
 * - RESOURCE_NOT_FOUND, RESOURCE_EXPIRED, RESOURCE_PENDING, RESOURCE_FAILED: the state of the resource
 * - STREAM_BROKEN: the connection broke after `details.rows` rows, and the stream could not be resumed
 * - UNTRUSTED_ORIGIN: the answer or the tool result points to a host that was not configured
 */
export class FetchError extends DualError {
  /** The HTTP status; undefined if no answer came, or if it broke off. */
  readonly status: number | undefined;
  /** The id of the request in the server's log. */
  requestId: string | undefined;
  /** Seconds to wait, from the server's Retry-After header. */
  retryAfter: number | undefined;
  /** The same request may succeed later. */
  mayPass: boolean;
  /** The server may have no such route: 405, 501, or a 404 without the code of a missing resource. */
  isUnrouted = false;
  /** There is no such resource, or no longer: 404 or 410. */
  isGone = false;

  constructor(message: string, fields: ErrorFields & { status?: number | undefined } = {}) {
    super(message, "FETCH_ERROR", { ...fields, hint: fields.hint ?? HINTS[fields.code ?? ""] });
    this.status = fields.status;
    const isTemporary = TEMPORARY_STATUSES.has(fields.status ?? 0) || TEMPORARY_CODES.has(this.code);
    this.mayPass = isTemporary && !PERMANENT_CODES.has(this.code);
  }
}

const AGAIN = "Run the tool again to get a new resource.";
const HINTS: Record<string, string> = {
  TIMEOUT: "Ask for fewer rows, or give the client a longer timeout.",
  RESOURCE_NOT_FOUND: AGAIN,
  RESOURCE_EXPIRED: "Run the tool again to get a new resource; pin one to keep it.",
  RESOURCE_PENDING: "await result.waitUntilReady() first.",
  RESOURCE_FAILED: AGAIN,
  UNTRUSTED_ORIGIN: "If that host is right, make it one of the client's origins.",
};

const TEMPORARY_STATUSES = new Set([429, 502, 503, 504]);
/** Codes in the last record of a stream, whose status 200 was sent before. */
const TEMPORARY_CODES = new Set([
  "DATABASE_BUSY", "DATABASE_UNREACHABLE", "RATE_LIMITED", "SERVER_UNAVAILABLE", "STORAGE_ERROR", "TOO_MANY_QUERIES",
]);
/** Its status is 504, but the query would take as long again. */
const PERMANENT_CODES = new Set(["QUERY_TIMEOUT"]);

const CODES_BY_STATUS: Record<number, string> = { 404: "RESOURCE_NOT_FOUND", 410: "RESOURCE_EXPIRED" };
const GONE = new Set(Object.values(CODES_BY_STATUS));
const LONGEST_TEXT = 2_000;
/** The statuses of a server that does not take this method at this address. */
export const UNROUTED = new Set([405, 501]);
/** What FastAPI says of an unknown route. Its servers say of a missing result what their authors write. */
const NO_ROUTE = "Not Found";

/** The error for an answer with an error status, or for the problem at the end of a stream. */
export function fetchError(status: number, body: unknown): FetchError {
  const problem = isObject(body) ? body : {};
  const word = problem["code"];
  const code = typeof word === "string" && /^[A-Z][A-Z0-9_]{1,63}$/.test(word) ? word : undefined;
  const message = text(problem["message"]) ?? text(problem["detail"]);
  const isForeign = status === 404 && !("code" in problem || "error" in problem) && (message ?? NO_ROUTE) === NO_ROUTE;
  const byStatus = CODES_BY_STATUS[status];
  const details = problem["details"];
  const error = new FetchError(
    isForeign ? "The server answered with status 404, and not as dualsql does." : (message ?? `The server answered with status ${status}.`),
    {
      status,
      code: code ?? byStatus,
      hint: isForeign ? "Check the address: it is where router() of the server is mounted." : (text(problem["hint"]) ?? HINTS[byStatus ?? ""]),
      details: isObject(details) ? details : undefined,
    },
  );
  error.isGone = byStatus !== undefined || GONE.has(error.code);
  error.isUnrouted = UNROUTED.has(status) || (status === 404 && code !== "RESOURCE_NOT_FOUND");
  return error;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value.slice(0, LONGEST_TEXT) : undefined;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const PAGES_REMAIN = "Read the rows with page, fetchAll or stream. The rest is in the default features of dualsql.";

/** The error for an operation that a server without it refused, which has pages of the result: by POST, or by GET alone. */
export function pagesOnly(status: number | undefined, hasPosts: boolean): FetchError {
  const onlyGet = "This server has pages by GET and nothing else: no streams, no metadata, no queries, no pins.";
  const refused = `This server has pages of the result, and refuses this request with status ${status}.`;
  return new FetchError(hasPosts ? refused : onlyGet, { status, hint: PAGES_REMAIN });
}

/** The error for rows as the answer to a request for metadata, as servers of the reference design send them. */
export function rowsForMetadata(): FetchError {
  return new FetchError("This server sends rows where metadata were asked for.", { status: 200, hint: PAGES_REMAIN });
}
