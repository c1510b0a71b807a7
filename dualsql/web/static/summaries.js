// What each column holds, below its name: NULLs, distinct values, and a small histogram or the most frequent values.
// The server computes it of what is on the screen, for the columns in view alone, and within a budget.

import { make, shape } from "./dom.js";
import { send } from "./rows.js";
import { exact, grouped, visible } from "./values.js";

const BUDGET = 2; // seconds of the database for one request
const PAUSE = 200; // milliseconds without a scroll
const BARS = 40; // pixels of a histogram's height, in its own units

export class Summaries {
  /**
   * @param {string} url of the result
   * @param {function} opened called with a column when its summary is clicked
   */
  constructor(url, opened) {
    this.url = url;
    this.opened = opened;
    this.question = {};
    this.places = new Map(); // by the names of columns: the elements of this question
    this.profiles = new Map(); // what is known of them
    this.inView = [];
    this.controller = null;
  }

  /** Another question: what was known is of other rows. */
  ask(question) {
    this.stop();
    this.question = question;
    this.places.clear();
    this.profiles.clear();
  }

  stop() {
    clearTimeout(this.timer);
    this.controller?.abort();
    this.controller = null;
  }

  /** The place of a column's summary, which is filled when the server has answered. */
  placeOf(column) {
    if (!this.places.has(column.name)) {
      this.places.set(column.name, make("button", { className: "summary", tabIndex: -1, "aria-label": `Values of ${column.name}`, onclick: () => this.opened(column) }));
    }
    return this.places.get(column.name);
  }

  /** These columns are in view. */
  want(columns) {
    this.inView = columns.filter((column) => this.places.has(column.name) && !this.profiles.has(column.name));
    clearTimeout(this.timer);
    if (this.inView.length && !this.controller) this.timer = setTimeout(() => this.#read(), PAUSE);
  }

  async #read() {
    const columns = this.inView;
    const controller = new AbortController();
    this.controller = controller;
    try {
      const names = this.question.isGrouped ? {} : { columns: columns.map((column) => column.name) };
      const body = { ...this.question.body, ...names, kind: "full", budget: BUDGET };
      const answer = await send(`${this.url}/profile`, { body, signal: controller.signal });
      for (const column of columns) this.#take(column, answer.columns.find((each) => each.name === column.name), answer.covers.rows);
    } catch {
      if (this.controller !== controller) return; // another question
      for (const column of columns) this.#take(column, undefined, null); // the rows are there without it
    }
    if (this.controller !== controller) return;
    this.controller = null;
    this.want(this.inView);
  }

  #take(column, profile, rows) {
    this.profiles.set(column.name, profile ?? null);
    const place = this.places.get(column.name);
    if (!profile || rows === null) {
      place.title = "There was no time to read all rows. Profile reads them.";
      place.replaceChildren(make("span", {}, kindOf(column)));
      return;
    }
    const words = wordsOf(column, profile, rows);
    place.title = [column.name, ...words, ...rangeOf(profile)].join("\n");
    place.setAttribute("aria-label", `Values of ${column.name}: ${words.join(", ")}`);
    place.replaceChildren(...[make("span", {}, words.join(" · ")), mostFrequent(profile, rows), pictureOf(profile, rows)].filter(Boolean));
  }
}

function wordsOf(column, profile, rows) {
  if (profile.masked) return ["masked"];
  const about = profile.distinct_kind === "approximate" ? "~" : "";
  const nulls = profile.nulls ? [`${share(profile.nulls, rows)} NULL`] : [];
  const distinct = profile.distinct === undefined ? [] : [`${about}${grouped(profile.distinct)} distinct`];
  return [...nulls, ...distinct, kindOf(column)];
}

function kindOf({ encoding }) {
  return encoding.replace("-string", ""); // big integers are texts in JSON alone
}

/** A share in words; of nothing, none. */
export function share(part, whole) {
  const percent = (100 * part) / (whole || 1);
  if (!part) return "0%";
  return percent < 0.1 ? "<0.1%" : percent > 99.9 && part < whole ? ">99.9%" : `${Number(percent.toPrecision(2))}%`;
}

/** The most frequent value with its share, where some values are frequent. */
function mostFrequent({ histogram, most_frequent: [first] = [], estimated, masked }, rows) {
  if (histogram || masked || !first || first.count < 2) return null;
  const about = estimated?.statistics.includes("most_frequent") ? "~" : "";
  const text = first.value === null ? "NULL" : first.value === "" ? "empty" : visible(exact(first.value));
  return make("span", { className: "frequent" }, make("bdi", {}, text), ` ${about}${share(first.count, rows)}`);
}

function rangeOf(profile) {
  const range = profile.minimum === undefined || profile.minimum === null ? [] : [`from ${visible(exact(profile.minimum))} to ${visible(exact(profile.maximum))}`];
  const frequent = (profile.most_frequent ?? []).map(({ value, count }) => `${value === null ? "NULL" : visible(exact(value))}: ${grouped(count)}`);
  return [...range, ...frequent];
}

/** A histogram, or the shares of the most frequent values; nothing where neither says anything. */
function pictureOf(profile, rows) {
  const svg = shape("svg", { viewBox: `0 0 100 ${BARS}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(...(profile.histogram ? columnsOf(profile.histogram) : sharesOf(profile.most_frequent ?? [], rows)));
  return svg;
}

function columnsOf(histogram) {
  const most = Math.max(...histogram.map((bin) => bin.count), 1);
  const width = 100 / histogram.length;
  return histogram.map(({ count }, index) => {
    const height = count ? Math.max((count / most) * BARS, 1.5) : 0;
    return shape("rect", { class: "bar-mark", x: index * width, y: BARS - height, width: width * 0.9, height });
  });
}

function sharesOf(frequent, rows) {
  let x = 0;
  return frequent.map(({ count }, index) => {
    const width = (100 * count) / Math.max(rows, 1);
    x += width;
    return shape("rect", { class: "bar-mark", x: x - width, y: 0, width: Math.max(width - 0.7, 0.3), height: BARS, opacity: 1 - index * 0.16 });
  });
}
