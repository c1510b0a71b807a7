/** All rows of a result, as one stream that resumes after a broken connection; and downloads of other formats. */
import { Budget } from "./budget.ts";
import { FetchError, fetchError, isObject } from "./errors.ts";
import { parseJSON } from "./json.ts";
import { Collector, pause, type Transport } from "./transport.ts";
import type { Row, RowsBody, StreamFormat } from "./wire.ts";

const NDJSON = "application/x-ndjson";
const NEWLINE = 0x0a;

/** Some whole rows, as the server sent them. */
interface Block {
  data: Uint8Array;
  rows: number;
}

/** The rows of POST /{id}/rows, in blocks as they arrive. Only a few are in memory at once; to stop reading ends the query.
 *
 * @throws {FetchError} see the class; STREAM_BROKEN if the stream broke and cannot be resumed.
 */
export async function* rowBlocks(
  transport: Transport, uri: string, request: RowsBody, signal?: AbortSignal,
): AsyncGenerator<Row[], void, undefined> {
  const stream = new RowStream(transport, uri, request, signal);
  const budget = new Budget(transport.settings.retry);
  for (;;) {
    try {
      yield* stream.attempt(budget);
      return;
    } catch (error) {
      if (!(error instanceof FetchError)) throw error;
      const delay = await stream.delay(error, budget);
      await pause(delay, signal);
    }
  }
}

class RowStream {
  rows = 0;
  private bytes = 0;
  private token: string | undefined;
  private noResume = "";
  private hasAnswered = false;
  private digest: string | undefined;
  private readonly framer: LineFramer;
  private readonly transport: Transport;
  private readonly uri: string;
  private readonly request: RowsBody;
  private readonly signal: AbortSignal | undefined;

  constructor(transport: Transport, uri: string, request: RowsBody, signal?: AbortSignal) {
    this.transport = transport;
    this.uri = uri;
    this.request = request;
    this.signal = signal;
    this.framer = new LineFramer(transport.settings.maximumResponseBytes);
  }

  async *attempt(budget: Budget): AsyncGenerator<Row[], void, undefined> {
    const { headers, pieces } = await this.transport.stream(this.uri, this.body(), NDJSON, this.signal);
    this.hasAnswered = true;
    this.token = headers.get("dualsql-resume") ?? this.token;
    this.noResume = headers.get("dualsql-no-resume") ?? "";
    for await (const piece of pieces) {
      budget.spend(piece.length);
      const block = this.framer.feed(piece);
      budget.progress(block?.rows ?? 0, !block);
      const receivedAt = Date.now();
      if (block) yield this.count(block);
      budget.leaveOut(Date.now() - receivedAt);
    }
    this.framer.finish(this.rows);
  }

  private body(): RowsBody {
    const request: RowsBody = { ...this.request, format: "ndjson" };
    if (!this.rows || this.token === undefined) return request;
    return { ...request, resume: this.token, after: this.rows, last: this.digest! };
  }

  private count(block: Block): Row[] {
    const rows = rowsOf(block);
    this.rows += block.rows;
    this.bytes += block.data.length;
    const most = this.transport.settings.maximumStreamBytes;
    if (this.bytes > most) {
      throw new FetchError(`The stream is longer than ${most} bytes.`, {
        status: 200,
        hint: "Ask for fewer rows or columns, or raise the client's maximumStreamBytes.",
        details: { rows: this.rows },
      });
    }
    return rows;
  }

  /** Milliseconds until the next attempt.
   *
   * @throws {FetchError} there is none.
   */
  async delay(error: FetchError, budget: Budget): Promise<number> {
    // A body that broke off has no status.
    const brokeOff = error.status === undefined && this.hasAnswered && error.code !== "UNTRUSTED_ORIGIN";
    if (!error.mayPass && !brokeOff) throw error;
    if (this.rows) {
      if (this.token === undefined) throw this.broken(error, WHY_NOT.get(this.noResume) ?? "Begin again.");
      this.digest = await this.framer.lastDigest();
      // Without the digest the server cannot check that the last row is unchanged.
      if (this.digest === undefined) throw this.broken(error, "Resuming needs crypto.subtle: load the page over https.");
    }
    const delay = budget.delay(error.retryAfter);
    if (delay === undefined) throw budget.annotate(this.rows ? this.broken(error, "Try again later.") : error);
    this.framer.forget();
    return delay;
  }

  private broken(error: FetchError, hint: string): FetchError {
    return new FetchError(`The stream broke after ${this.rows} rows: ${error.message}`, {
      code: "STREAM_BROKEN", hint, details: { rows: this.rows }, cause: error,
    });
  }
}

const WHY_NOT = new Map([["NO_TOTAL_ORDER", "Give the query an ORDER BY that no two rows share, or sort by such columns."]]);

/** NDJSON: one row a line; the last line is the summary or a problem. */
class LineFramer {
  private readonly maximumBytes: number;
  private readonly pending = new Collector();
  private last: Uint8Array | undefined;

  constructor(maximumBytes: number) {
    this.maximumBytes = maximumBytes;
  }

  /** The rows that are complete by now, without the last line so far, which may be the summary. */
  feed(piece: Uint8Array): Block | undefined {
    if (!piece.includes(NEWLINE)) {
      this.hold(piece);
      return undefined;
    }
    this.pending.add(piece);
    const whole = this.pending.take();
    const end = whole.lastIndexOf(NEWLINE);
    const start = end > 0 ? whole.lastIndexOf(NEWLINE, end - 1) + 1 : 0;
    this.hold(whole.subarray(start));
    if (start === 0) return undefined;
    const data = whole.subarray(0, start);
    this.last = data;
    return { data, rows: linesIn(data) };
  }

  /** Check the end of the body.
   *
   * @throws {FetchError} the stream ended early (then without a status), with a problem, or with other rows.
   */
  finish(rows: number): void {
    const record = endRecord(this.pending.take());
    const { $problem: problem, $summary: summary } = record;
    if (isObject(problem)) {
      const details = isObject(problem["details"]) ? problem["details"] : {};
      throw fetchError(200, { ...problem, details: { ...details, rows } });
    }
    if (!isObject(summary) || summary["complete"] !== true) throw endedEarly();
    if (summary["rows"] !== rows) {
      throw new FetchError(`The stream ended with another number of rows than the ${rows} received.`, {
        status: 200, details: { rows },
      });
    }
  }

  /** Drop an incomplete row after the connection broke. */
  forget(): void {
    this.pending.take();
  }

  /** The digest of the last row returned; undefined if the runtime has no SHA-256 here. */
  async lastDigest(): Promise<string | undefined> {
    const { last } = this;
    const subtle = globalThis.crypto?.subtle;
    if (!last || !subtle) return undefined;
    const line = last.slice(last.lastIndexOf(NEWLINE, -2) + 1, -1);
    const digest = new Uint8Array(await subtle.digest("SHA-256", line));
    return Array.from(digest.subarray(0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  private hold(piece: Uint8Array): void {
    this.pending.add(piece);
    if (this.pending.size > this.maximumBytes) {
      throw new FetchError(`A row of the stream is larger than ${this.maximumBytes} bytes.`, {
        status: 200, hint: "Leave out its columns, or raise the client's maximumResponseBytes.",
      });
    }
  }
}

function linesIn(data: Uint8Array): number {
  let lines = 0;
  for (let at = data.indexOf(NEWLINE); at >= 0; at = data.indexOf(NEWLINE, at + 1)) lines++;
  return lines;
}

function textOf(data: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
}

/** The rows of whole lines.
 *
 * @throws {FetchError} a line is no JSON object.
 */
function rowsOf({ data, rows }: Block): Row[] {
  let values: unknown;
  try {
    values = parseJSON(`[${textOf(data.subarray(0, -1)).replaceAll("\n", ",")}]`);
  } catch (error) {
    throw noRows(error);
  }
  // The number differs if a line has half a row or two rows.
  if (!isRows(values) || values.length !== rows) throw noRows();
  return values;
}

export function isRows(value: unknown): value is Row[] {
  return Array.isArray(value) && value.every(isObject);
}

function noRows(cause?: unknown): FetchError {
  return new FetchError("The stream's lines are not rows in JSON.", { status: 200, cause });
}

function endedEarly(): FetchError {
  return new FetchError("The stream ended too early.");
}

function endRecord(line: Uint8Array): Row {
  try {
    const text = textOf(line);
    if (/^\{"\$(summary|problem)":/.test(text) && text.endsWith("\n")) return parseJSON(text) as Row;
  } catch {
    // Half a character, or half a record.
  }
  throw endedEarly();
}

/** All rows as the bytes of a file. */
export interface Download {
  /** Read it to its end: an incomplete file ends with an error. It can be read once. */
  body: ReadableStream<Uint8Array<ArrayBuffer>>;
  mediaType: string;
  /** A name that the server suggests; empty if it suggests none. */
  filename: string;
  /** All bytes. */
  blob(): Promise<Blob>;
}

/** Of each format: its media type, the beginning of its last bytes, and their number if there are more. */
const FILES: Record<StreamFormat, { mediaType: string; end?: readonly number[]; size?: number }> = {
  ndjson: { mediaType: NDJSON },
  csv: { mediaType: "text/csv" },
  json: { mediaType: "application/json", end: [0x5d, 0x0a] },
  arrow: { mediaType: "application/vnd.apache.arrow.stream", end: [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0] },
  parquet: { mediaType: "application/vnd.apache.parquet", end: [0x50, 0x41, 0x52, 0x31] },
  xlsx: {
    mediaType: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    end: [0x50, 0x4b, 0x05, 0x06],
    size: 22,
  },
};

/** POST /{id}/rows in a format, as bytes. A download is not resumed. */
export async function download(
  transport: Transport, uri: string, format: StreamFormat, request: RowsBody, signal?: AbortSignal,
): Promise<Download> {
  const { mediaType } = FILES[format];
  // Without the summary the file has only rows; the end of the HTTP body ends it.
  const body: RowsBody = { ...request, format, ...(format === "ndjson" ? { summary: false } : {}) };
  const { headers, pieces } = await transport.stream(uri, body, mediaType, signal);
  const stream = readable(checked(pieces, format, transport));
  return {
    body: stream,
    mediaType,
    filename: filenameOf(headers.get("content-disposition") ?? ""),
    blob: async () => new Blob([await new Response(stream).blob()], { type: mediaType }),
  };
}

function filenameOf(disposition: string): string {
  const encoded = /filename\*=UTF-8''([^;]+)/i.exec(disposition)?.[1];
  const name = encoded ? decoded(encoded) : (/filename="([^"]*)"/i.exec(disposition)?.[1] ?? "");
  return name.replace(/[/\\\u0000-\u001f]/g, "_");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

type Pieces = AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined>;

/** The pieces of a file. Wrong last bytes for its format, or too many bytes, are an error. */
async function* checked(pieces: Pieces, format: StreamFormat, { settings }: Transport): Pieces {
  const { end = [], size = end.length } = FILES[format];
  const most = settings.maximumStreamBytes;
  const budget = new Budget(settings.retry);
  let tail = new Uint8Array();
  for await (const piece of pieces) {
    budget.spend(piece.length);
    budget.progress(0, true);
    if (budget.bytes > most) {
      throw new FetchError(`The file is longer than ${most} bytes.`, { status: 200, hint: "Raise the client's maximumStreamBytes." });
    }
    if (size) tail = Uint8Array.of(...tail, ...piece.slice(-size)).slice(-size);
    const receivedAt = Date.now();
    yield piece;
    budget.leaveOut(Date.now() - receivedAt);
  }
  if (tail.length < size || end.some((byte, at) => tail[at] !== byte)) throw endedEarly();
}

/** `ReadableStream.from` is missing in some browsers. */
function readable(pieces: Pieces): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async pull(controller) {
      const piece = await pieces.next();
      if (piece.done) controller.close();
      else controller.enqueue(piece.value);
    },
    async cancel() {
      await pieces.return();
    },
  });
}
