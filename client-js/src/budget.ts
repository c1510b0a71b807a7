/** The limits of one fetch: attempts, time without progress, total time, bytes. */
import { FetchError, NotConfiguredError } from "./errors.ts";

/**
 * How requests are repeated after temporary failures, and how broken streams are resumed. The limits are those of a whole
 * call, such as one `fetchAll`, with all its attempts and pages.
 */
export interface Retry {
  /** Milliseconds that a call continues without a new row. Default: 90,000. */
  budget?: number;
  /** The most attempts after the first; 0 for none. One that received 1 MiB of rows is not counted. Default: 100. */
  times?: number;
  /** The longest wait before the first of them, in milliseconds; it doubles, and the wait is random below it. Default: 250. */
  first?: number;
  /** The limit of the doubling. A server may request more (Retry-After) within the budget. Default: 15,000. */
  longest?: number;
  /** Milliseconds that a call waits for the server in all, also when rows arrive. Default: 12 hours. */
  total?: number;
}

const RETRY: Required<Retry> = { budget: 90_000, times: 100, first: 250, longest: 15_000, total: 12 * 3_600_000 };

/** @throws {NotConfiguredError} one of them is no number of at least 0. */
export function checkedRetry(retry: Retry = {}): Required<Retry> {
  for (const [name, value] of Object.entries(retry)) {
    if (!(name in RETRY) || typeof value !== "number" || !(value >= 0)) {
      throw new NotConfiguredError(`retry.${name} is no number of at least 0.`, {
        hint: `retry has ${Object.keys(RETRY).join(", ")}; times are in milliseconds.`,
      });
    }
  }
  return { ...RETRY, ...retry };
}

/** An attempt that received so many bytes is not counted: `maximumStreamBytes` ends the call before such attempts do. */
const FREE_BYTES = 1024 ** 2;
/** So many bytes of an incomplete row count as progress: a large row may take longer than the budget. */
const SLOW_BYTES = 64 * 1024;

/** The attempts, time and bytes that remain for one call. */
export class Budget {
  rows = 0;
  bytes = 0;
  failures = 0;
  private readonly retry: Required<Retry>;
  private readonly maximumBytes: number;
  private startedAt = Date.now();
  private stalledAt: number | undefined;
  private counted = 0;
  private doublings = 0;
  private bytesAtFailure = 0;
  private bytesAtProgress = 0;

  /** @param maximumBytes of all answers together, after decompression. */
  constructor(retry: Required<Retry>, maximumBytes = Infinity) {
    this.retry = retry;
    this.maximumBytes = maximumBytes;
  }

  /** Exclude the milliseconds that the application took with the rows. */
  leaveOut(milliseconds: number): void {
    this.startedAt += milliseconds;
    if (this.stalledAt !== undefined) this.stalledAt += milliseconds;
  }

  /** Count bytes of an answer.
   *
   * @throws {FetchError} there were too many.
   */
  spend(size: number): void {
    this.bytes += size;
    if (this.bytes <= this.maximumBytes) return;
    throw new FetchError(`The pages of the result are longer than ${this.maximumBytes} bytes.`, {
      status: 200,
      hint: "Ask for fewer rows or columns, or raise the client's maximumStreamBytes.",
      details: this.soFar(),
    });
  }

  /** Count rows that arrived; with `isPartial`, the bytes are part of a row.
   *
   * @throws {FetchError} there was too little progress for too long, or the call takes too long.
   */
  progress(rows: number, isPartial = false): void {
    this.rows += rows;
    const now = Date.now();
    if (rows || (isPartial && this.bytes - this.bytesAtProgress >= SLOW_BYTES)) {
      this.stalledAt = undefined;
      this.doublings = 0;
      this.bytesAtProgress = this.bytes;
    }
    if (!rows) this.stalledAt ??= now;
    if (this.remaining(now) > 0) return;
    throw this.annotate(new FetchError("The answer takes longer than the client waits.", {
      status: 200,
      hint: "Raise retry.budget or retry.total of the client.",
    }));
  }

  /** Count a page that announces another. A page without new rows counts as an attempt.
   *
   * @param total rows that the server has counted; a page beyond them has no new rows.
   * @throws {FetchError} see `progress`; or there were too many pages without new rows.
   */
  page(rows: number, total: number | null): void {
    const isNew = rows > 0 && (total === null || this.rows < total);
    this.progress(rows);
    if (isNew || this.delay() !== undefined) return;
    throw this.annotate(new FetchError("The server announces more pages, and they bring no rows.", { status: 200 }));
  }

  /** Milliseconds to wait after one more failure; undefined when there were enough.
   *
   * @param requested seconds to wait according to the server.
   * @param most another limit of the milliseconds without progress.
   */
  delay(requested = 0, most = Infinity): number | undefined {
    const now = Date.now();
    this.stalledAt ??= now;
    if (this.bytes - this.bytesAtFailure < FREE_BYTES) this.counted++;
    this.bytesAtFailure = this.bytes;
    this.failures++;
    const remaining = this.remaining(now, most);
    if (this.counted > this.retry.times || remaining <= 0 || requested * 1_000 > remaining) return undefined;
    const wait = Math.random() * Math.min(this.retry.longest, this.retry.first * 2 ** Math.min(this.doublings++, 40));
    return Math.max(Math.min(wait, remaining), requested * 1_000);
  }

  /** The error that ends the call, with the rows, bytes, attempts and milliseconds so far. */
  annotate(error: FetchError): FetchError {
    if (this.failures < 2 && !this.bytes) return error;
    const soFar = this.soFar();
    Object.assign(error.details, soFar);
    error.message +=
      ` Given up after ${this.rows} rows, ${this.bytes} bytes, ${this.failures} failed attempts and ${soFar.milliseconds} ms.`;
    return error;
  }

  private remaining(now: number, most = Infinity): number {
    const idle = this.stalledAt === undefined ? 0 : now - this.stalledAt;
    return Math.min(Math.min(this.retry.budget, most) - idle, this.retry.total - (now - this.startedAt));
  }

  private soFar(): { rows: number; bytes: number; attempts: number; milliseconds: number } {
    return { rows: this.rows, bytes: this.bytes, attempts: this.failures, milliseconds: Date.now() - this.startedAt };
  }
}
