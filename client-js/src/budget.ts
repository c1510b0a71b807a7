/** What one fetch may take: attempts, time without progress, time in all, bytes. */
import { FetchError, NotConfiguredError } from "./errors.ts";

/**
 * How requests are repeated after temporary failures, and how broken streams are resumed. All of it is for a whole call,
 * such as one `fetchAll`, however often its stream breaks and however many pages it reads.
 */
export interface Retry {
  /** Milliseconds that a call goes on without a new row. Default: 90,000. */
  budget?: number;
  /** The most attempts after the first; 0 for none. One that brought 1 MiB of rows is not counted. Default: 100. */
  times?: number;
  /** The longest wait before the first of them, in milliseconds; it doubles, and is drawn at random below. Default: 250. */
  first?: number;
  /** The most that the wait grows to. A server may ask for more (Retry-After), within the budget. Default: 15,000. */
  longest?: number;
  /** Milliseconds that a call waits for the server in all, rows or not. Default: 12 hours. */
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

/** An attempt that brought so many bytes is not counted: the largest stream ends the call before such attempts do. */
const FREE_BYTES = 1024 ** 2;
/** So many bytes of a row that is not complete count as progress: a large row may take longer than the budget. */
const SLOW_BYTES = 64 * 1024;

/** What is left of one call. */
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

  /** Leave out the milliseconds that the application took with what it got. */
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

  /** Count rows that came; `isPartial` if what came is part of a row.
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
    if (this.left(now) > 0) return;
    throw this.annotate(new FetchError("The answer takes longer than the client waits.", {
      status: 200,
      hint: "Raise retry.budget or retry.total of the client.",
    }));
  }

  /** Count a page behind which there is to be another. One that brings nothing counts as an attempt.
   *
   * @param total rows that the server has counted; a page behind all of them brings nothing.
   * @throws {FetchError} see `progress`; or there were too many pages that brought nothing.
   */
  page(rows: number, total: number | null): void {
    const isNew = rows > 0 && (total === null || this.rows < total);
    this.progress(rows);
    if (isNew || this.delay() !== undefined) return;
    throw this.annotate(new FetchError("The server announces more pages, and they bring no rows.", { status: 200 }));
  }

  /** Milliseconds to wait after one more failure; undefined when there were enough.
   *
   * @param asked seconds that the server asks the client to wait.
   * @param most milliseconds that bound the time without progress further.
   */
  delay(asked = 0, most = Infinity): number | undefined {
    const now = Date.now();
    this.stalledAt ??= now;
    if (this.bytes - this.bytesAtFailure < FREE_BYTES) this.counted++;
    this.bytesAtFailure = this.bytes;
    this.failures++;
    const left = this.left(now, most);
    if (this.counted > this.retry.times || left <= 0 || asked * 1_000 > left) return undefined;
    const drawn = Math.random() * Math.min(this.retry.longest, this.retry.first * 2 ** Math.min(this.doublings++, 40));
    return Math.max(Math.min(drawn, left), asked * 1_000);
  }

  /** The error that ends the call, with how far it came. */
  annotate(error: FetchError): FetchError {
    if (this.failures < 2 && !this.bytes) return error;
    const soFar = this.soFar();
    Object.assign(error.details, soFar);
    error.message +=
      ` Given up after ${this.rows} rows, ${this.bytes} bytes, ${this.failures} failed attempts and ${soFar.milliseconds} ms.`;
    return error;
  }

  private left(now: number, most = Infinity): number {
    const idle = this.stalledAt === undefined ? 0 : now - this.stalledAt;
    return Math.min(Math.min(this.retry.budget, most) - idle, this.retry.total - (now - this.startedAt));
  }

  private soFar(): { rows: number; bytes: number; attempts: number; milliseconds: number } {
    return { rows: this.rows, bytes: this.bytes, attempts: this.failures, milliseconds: Date.now() - this.startedAt };
  }
}
