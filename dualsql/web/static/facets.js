// The values of columns with their numbers of rows, beside the grid: a click on one filters by it.

import { VOCABULARY, bucketNamed, chosenIn, inBucket, inWords, withValue, withoutColumn } from "./filters.js";
import { SLOW, make, option } from "./dom.js";
import { send, sentenceOf } from "./rows.js";
import { grouped, isTime, shown, visible } from "./values.js";

const FEW = 10; // values of a column at first
const MANY = 100;
const FIRST_BUCKET = "month";

export class Facets {
  /**
   * @param {HTMLElement} place the panel
   * @param {object} on changed(changes) of the page's state
   */
  constructor(url, place, on) {
    this.url = url;
    this.place = place;
    this.on = on;
    this.most = {}; // values of a column that are asked for, by its name
    this.controller = null;
  }

  /** Show the values of the columns that the state names, among the rows that its other filters keep. */
  async show(state, columns) {
    this.controller?.abort();
    const controller = new AbortController();
    this.controller = controller;
    this.place.hidden = !state.facets.length || Boolean(state.group);
    if (this.place.hidden) return this.place.replaceChildren();
    const shownFacets = state.facets.map((facet) => ({ ...facet, column: columns.find((column) => column.name === facet.name) })).filter((facet) => facet.column);
    const sections = shownFacets.map((facet) => this.#section(facet, state));
    this.place.replaceChildren(make("h2", { className: "hidden" }, "Values"), ...sections.map((section) => section.element), this.#adding(state, columns));
    for (const section of sections) {
      await this.#fill(section, state, controller.signal);
      if (controller.signal.aborted) return undefined;
    }
    return undefined;
  }

  #section(facet, state) {
    const { name, column, bucket = FIRST_BUCKET } = facet;
    const list = make("ul", { className: "plain" });
    const others = state.facets.filter((other) => other.name !== name);
    const units = isTime(column) && make("select", { "aria-label": `Unit of ${name}`, onchange: (event) => {
      this.on.changed({ facets: state.facets.map((other) => (other.name === name ? { name, bucket: event.target.value } : other)) });
    } }, ...VOCABULARY.buckets.map((unit) => option(unit.name, unit.name, unit.name === bucket)));
    const element = make("section", { "aria-label": `Values of ${name}` },
      make("div", { className: "facet-head" }, make("h3", {}, make("bdi", {}, visible(name))), units || null,
        make("button", { "aria-label": `Close the values of ${name}`, onclick: () => this.on.changed({ facets: others }) }, "✕")),
      list);
    return { ...facet, bucket, list, element };
  }

  /** The values, most frequent first; those of times in their order. */
  async #fill({ name, column, bucket, list }, state, signal) {
    const most = this.most[name] ?? FEW;
    const key = isTime(column) ? { column: name, bucket, as: "value" } : { column: name, as: "value" };
    const order = isTime(column) ? { column: "value" } : { column: "rows", order: "desc" };
    const body = {
      filters: withoutColumn(state.filters, name), group_by: [key], aggregates: [{ function: "count", as: "rows" }],
      order_by: [order], limit: most + 1, big_integers: "string",
    };
    const slow = setTimeout(() => { if (!list.hasChildNodes()) list.append(make("li", { className: "facts" }, "Reading…")); }, SLOW);
    try {
      const { data, columns: [described] } = await send(`${this.url}/query`, { body, signal });
      const counts = data.map((row) => Number(row.rows));
      const values = data.slice(0, most).map((row, index) => this.#value({ name, column, bucket, described }, state, row.value, counts[index], Math.max(...counts)));
      list.replaceChildren(...values, ...(data.length > most ? [this.#more({ name, column, bucket, list }, state)] : []));
    } catch (error) {
      if (error.name !== "AbortError") list.replaceChildren(make("li", { className: "facts" }, sentenceOf(error)));
    } finally {
      clearTimeout(slow);
    }
  }

  #value({ name, column, bucket, described }, state, value, count, most) {
    const { text } = shown(value, described, state.isExact);
    const label = isTime(column) && /^\d/.test(value) ? String(value).slice(0, bucketNamed(bucket).characters).replace("T", " ") : text;
    const clicked = chosenIn(state.filters, name);
    const isChosen = isTime(column) && value !== null ? this.#isIn(state, name, bucket, value) : clicked.values.includes(value);
    const change = (isExcluded) => this.on.changed({ filters: this.#changed(state, { name, column, bucket }, value, isExcluded) });
    const meter = make("span", { className: "meter" });
    meter.style.width = `${(100 * count) / most}%`;
    return make("li", { className: isChosen && clicked.isExcluded ? "excluded" : "" },
      make("button", { className: "value", "aria-pressed": String(isChosen && !clicked.isExcluded), onclick: () => change(false) },
        meter, make("bdi", { className: value === null || value === "" ? "null" : "" }, label), make("span", { className: "count" }, grouped(count))),
      isTime(column) && value !== null ? null : make("button", { className: "exclude", "aria-label": `Exclude ${text}`, title: `Exclude ${text}`,
        "aria-pressed": String(isChosen && clicked.isExcluded), onclick: () => change(true) }, "−"));
  }

  #isIn(state, name, bucket, value) {
    const words = inWords(inBucket(name, bucket, value));
    return state.filters.some((filter) => inWords(filter) === words);
  }

  #changed(state, { name, column, bucket }, value, isExcluded) {
    if (!isTime(column) || value === null) return withValue(state.filters, name, value, isExcluded);
    const others = withoutColumn(state.filters, name);
    return this.#isIn(state, name, bucket, value) ? others : [...others, inBucket(name, bucket, value)];
  }

  #more(section, state) {
    return make("li", {}, make("button", { onclick: () => {
      this.most[section.name] = MANY;
      this.#fill(section, state, this.controller.signal);
    } }, "More values"));
  }

  #adding(state, columns) {
    const left = columns.filter((column) => !state.facets.some((facet) => facet.name === column.name));
    const select = make("select", { "aria-label": "Values of another column", onchange: () => {
      if (select.value) this.on.changed({ facets: [...state.facets, { name: select.value }] });
    } }, option("", "Add a column…"), ...left.map((column) => option(column.name, visible(column.name))));
    return left.length ? select : "";
  }
}
