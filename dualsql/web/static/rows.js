// Rows of one question about a result, read page by page over REST.

import { LONGEST, digitsOf } from "./values.js";

const MOST_CELLS = 200_000; // kept, beside the pages around the screen; some 25 MB
const CHARACTERS = 100; // of a text that count as one cell more
const MOST_REQUESTS = 2; // at once: the server bounds the queries of all readers together
const RETRIES = 3;
const SOON = 2; // seconds until a server is asked again that does not say when
const LATE = "respond-async"; // where rows take too long, the server may keep those of the result meanwhile (RFC 7240)

const SENTENCES = {
  401: "You are not signed in any more. Sign in, and reload the page.",
  404: "This result does not exist any more, or it is not yours. Ask the question again to get a new one.",
  410: "This result has expired. Ask the question again to get a new one.",
  503: "The database is busy. Try again in a moment.",
  504: "The database took too long. Filter the rows, or try again.",
};

/** What the server answered instead of rows. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.message ?? "The server answered with something else than JSON.");
    this.status = status;
    this.code = body?.code ?? "";
    this.hint = body?.hint ?? "";
    this.textColumns = body?.details?.text_columns ?? []; // that the file can have as texts
  }
}

/** A failure of `send` as a sentence that says what to do. */
export function sentenceOf(error) {
  if (!(error instanceof Problem)) return "The server cannot be reached. Check the connection, and try again.";
  return SENTENCES[error.status] ?? `${error.message} ${error.hint}`.trim();
}

/** Send JSON, get JSON. Rejects with a Problem, or with a TypeError when the server cannot be reached. */
export async function send(url, { method = "POST", body, signal, prefer } = {}) {
  const headers = { Accept: "application/json", ...(prefer && { Prefer: prefer }) };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  for (let attempt = 1; ; attempt += 1) {
    const response = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, redirect: "manual" });
    if (response.type === "opaqueredirect") throw new Problem(401, null); // to the login of the application
    if (response.status === 503 && attempt <= RETRIES) {
      await pause(Number(response.headers.get("Retry-After")) || 1, signal);
      continue;
    }
    if (response.status === 204) return null;
    const answer = await response.json().catch(() => null);
    if (!response.ok) throw new Problem(response.status, answer);
    return prefer && response.headers.get("Preference-Applied") === prefer ? { late: answer } : answer;
  }
}

/** Rows: where they take too long, those of the result are kept meanwhile, and they are asked for again. `late` is called with the metadata. */
async function sendPatiently(url, late, address, { body, signal }) {
  const answer = await send(address, { body, signal, prefer: LATE });
  if (!answer.late) return answer;
  let metadata = answer.late;
  late(metadata);
  while (metadata.kept?.rows_so_far !== undefined) {
    await pause(SOON, signal);
    metadata = await send(url, { method: "GET", signal });
    late(metadata);
  }
  if (metadata.kept?.error) throw new Problem(409, metadata.kept.error);
  return send(address, { body, signal });
}

function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
  });
}

/** A question as the body of a request: the result's own rows, in some order, or an answer of /query. */
export function bodyOf(question) {
  if (!isAsked(question)) return { sort: question.sort };
  const body = {};
  if (question.filters.length) body.filters = question.filters;
  if (question.group) Object.assign(body, { group_by: question.group.by, aggregates: question.group.aggregates });
  if (question.sort.length) body.order_by = orderBy(question.sort);
  return body;
}

/** An order as a question has it. */
export function orderBy(sort) {
  return sort.map(({ field, order }) => ({ column: field, order }));
}

export function isAsked(question) {
  return question.filters.length > 0 || Boolean(question.group);
}

/** A sort with another order of one column; alone, or added to the others. Without an order the column is no key. */
export function sortedBy(sort, { name }, order, isAdded) {
  const others = isAdded ? sort.filter((key) => key.field !== name) : [];
  return order ? [...others, { field: name, order }] : others;
}

/** The rows of one question: those that were read are kept, those that are missing are asked for. */
export class Rows {
  /**
   * @param {string} url of the result
   * @param {object} question sort, filters and group
   * @param {object} options limit: rows of a page; format: (row, columns) => cells; changed, failed, late: called back;
   *   send: how a request reaches the server
   */
  constructor(url, question, { limit, format, changed, failed, late, send: sendBody = send }) {
    this.question = question;
    this.address = isAsked(question) ? `${url}/query` : url;
    this.body = bodyOf(question);
    this.send = sendBody;
    this.sendFirst = late ? (address, request) => sendPatiently(url, (metadata) => this.#noteLate(late, metadata), address, request) : sendBody;
    this.limit = limit;
    this.format = format;
    this.changed = changed;
    this.failed = failed;
    this.columns = null;
    this.count = 0; // rows as far as they are known
    this.isCounted = false;
    this.total = null; // { rows, kind } as the server says it
    this.pages = new Map(); // by number, the one that was used last at the end
    this.cells = 0; // of these pages
    this.near = []; // numbers of the pages around the screen
    this.running = new Map();
    this.needed = null; // the page that is read whatever is on the screen
    this.counting = new AbortController();
    this.queue = [];
    this.isStopped = false;
  }

  /** The cells of a row; undefined while they are not here. */
  row(index) {
    return this.pages.get(Math.floor(index / this.limit))?.rows[index % this.limit];
  }

  /** A value as the JSON has it; undefined while it is not here. */
  value(index, column) {
    return this.pages.get(Math.floor(index / this.limit))?.values[index % this.limit]?.[column];
  }

  /** The number of characters of a cell of which only the beginning is here; undefined for a whole one. */
  cutAt(index, column) {
    return this.pages.get(Math.floor(index / this.limit))?.cut.get(`${index % this.limit} ${column}`);
  }

  /** The values of rows with their whole cells, read anew. */
  async whole(index, number = 1) {
    const page = await this.send(this.address, { body: { ...this.body, offset: index, limit: number, big_integers: "string" } });
    return page.data.map((row) => this.columns.map((column) => row[column.name]));
  }

  /** Whether rows are being read. */
  get isReading() {
    return this.running.size > 0 || this.queue.length > 0;
  }

  /** Whether the instants of a column have a zone, as far as rows were read. */
  hasZone(column) {
    for (const { values } of this.pages.values()) {
      const row = values.find((row) => typeof row[column] === "string");
      if (row) return /(Z|[+-]\d\d:\d\d)$/.test(row[column]);
    }
    return false;
  }

  /** Ask for the pages of rows y0 to y1 and for the one behind them. Requests for rows that are no longer on the screen are cancelled. */
  want(y0, y1) {
    const first = Math.floor(y0 / this.limit);
    const last = Math.floor(Math.max(y0, y1 - 1) / this.limit);
    const numbers = [];
    for (let number = first; number <= last; number += 1) numbers.push(number);
    if ((last + 1) * this.limit < this.count) numbers.push(last + 1);
    if (first > 0) numbers.push(first - 1);
    for (const number of numbers) this.#touch(number);
    this.near = numbers;
    this.queue = numbers.filter((number) => !this.pages.has(number) && !this.running.has(number));
    for (const [number, controller] of this.running) if (number !== this.needed && !numbers.includes(number)) controller.abort();
    this.#start();
  }

  /** Read one page now. Rejects with an AbortError when it is called off. */
  async read(number) {
    this.queue = [];
    this.needed = number;
    try {
      await this.#load(number);
    } finally {
      if (this.needed === number) this.needed = null;
    }
  }

  /** Whether there is such a row; its page is read where the end is not known. */
  async has(index) {
    const number = Math.floor(index / this.limit);
    if (!this.isCounted && !this.pages.has(number)) await this.read(number);
    return this.isCounted ? index < this.count : this.row(index) !== undefined;
  }

  /** Count the rows of an answer of /query, which has no total of its own until its last page. */
  async countAll() {
    if (!isAsked(this.question) || this.question.group || this.isCounted) return;
    const body = { filters: this.question.filters, aggregates: ["count"], big_integers: "string" };
    const answer = await this.send(this.address, { body, signal: this.counting.signal });
    if (this.isStopped || this.isCounted) return;
    this.count = Number(Object.values(answer.data[0])[0]);
    this.isCounted = true;
    this.total = { rows: this.count, kind: "exact" };
    this.changed();
  }

  stop() {
    this.isStopped = true;
    this.counting.abort();
    this.callOff();
  }

  /** Call off what is being read; the server ends the queries. */
  callOff() {
    this.queue = [];
    for (const controller of this.running.values()) controller.abort();
  }

  #touch(number) {
    const page = this.pages.get(number);
    if (page === undefined) return;
    this.pages.delete(number);
    this.pages.set(number, page);
  }

  #start() {
    while (this.queue.length && this.running.size < MOST_REQUESTS && !this.isStopped) {
      this.#load(this.queue.shift()).catch((error) => this.failed(error));
    }
  }

  async #load(number) {
    const controller = new AbortController();
    this.running.set(number, controller);
    try {
      const read = (send, where) => send(this.address, { body: { ...this.body, ...where, limit: this.limit, big_integers: "string", cell_limit: LONGEST + 1 }, signal: controller.signal });
      const cursor = this.pages.get(number - 1)?.next ?? this.pages.get(number + 1)?.previous;
      const beside = cursor && (await read(this.send, { cursor }).catch((error) => this.#forgetOthers(error)));
      this.#take(number, beside ?? (await read(this.sendFirst, { offset: number * this.limit })));
    } catch (error) {
      controller.signal.throwIfAborted(); // what was called off has not failed
      throw error;
    } finally {
      this.running.delete(number);
      this.#start();
    }
  }

  #take(number, page) {
    if (this.isStopped) return;
    const names = page.columns.map((column) => column.name);
    const values = page.data.map((row) => names.map((name) => row[name]));
    this.columns ??= page.columns.map((column, index) => ({ ...column, digits: digitsOf(column, values.map((row) => row[index])) }));
    const cells = weightOf(values);
    this.cells += cells - (this.pages.get(number)?.cells ?? 0);
    this.pages.set(number, {
      values,
      cells,
      cut: new Map((page.cut ?? []).map((cell) => [`${cell.row} ${names.indexOf(cell.column)}`, cell.characters])),
      rows: values.map((row) => this.format(row, this.columns)),
      next: page.next_cursor,
      previous: page.previous_cursor,
    });
    this.#forget(number);
    this.#measure(number * this.limit, page);
    this.changed();
  }

  /** The rows are of another run now: those that were read do not belong to them. */
  #forgetOthers(error) {
    if (error && error.code !== "BAD_CURSOR") throw error;
    this.pages.clear();
    this.cells = 0;
    this.isCounted = false;
  }

  #noteLate(late, metadata) {
    if (metadata.kept?.kept && metadata.kept.rows_so_far === undefined) this.#forgetOthers();
    late(metadata);
  }

  /** Forget the pages that were used first, as far as there are too many cells; not the one that has just come. */
  #forget(latest) {
    for (const [number, { cells }] of this.pages) {
      if (this.cells <= MOST_CELLS) return;
      if (number === latest || this.near.includes(number)) continue;
      this.pages.delete(number);
      this.cells -= cells;
    }
  }

  #measure(start, page) {
    const isBehind = start > 0 && !page.data.length; // of the last row: the page says nothing of where that is
    const end = isBehind ? 0 : start + page.data.length;
    if (!page.has_next && !isBehind) {
      this.count = end;
      this.isCounted = true;
    } else if (!this.isCounted) {
      const exact = page.total_count_kind === "exact" ? page.total_count : null;
      this.isCounted = exact !== null && exact >= end;
      const guess = Math.max(this.count, page.total_count ?? 0, end + (page.has_next ? this.limit : 0));
      this.count = this.isCounted ? exact : guess;
    }
    this.total = { rows: this.isCounted ? this.count : page.total_count, kind: this.isCounted ? "exact" : page.total_count_kind };
  }
}

/** How much a page takes, in cells: a long text is as much as several. */
function weightOf(values) {
  let cells = 0;
  for (const row of values) for (const value of row) cells += 1 + (typeof value === "string" ? Math.floor(value.length / CHARACTERS) : 0);
  return cells;
}
