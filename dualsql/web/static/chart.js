// The chart beside the rows: the server draws it from all rows that the filters keep.

import { VOCABULARY, keysOf } from "./filters.js";
import { labelled } from "./dialogs.js";
import { make, option } from "./dom.js";
import { send, sentenceOf } from "./rows.js";
import { isNumber, isTime, visible } from "./values.js";

const { aggregates: AGGREGATES, buckets: BUCKETS, marks: MARKS } = VOCABULARY;
const WORDS = { heatmap: { y: "Other axis", color: "Of" }, point: { y: "Height" } };
const DAY = 10; // characters of a day
const PICTURES = ["svg", "png"];
const BESIDE = 90; // pixels of a picture beside its plot: the axis and what is free
const BELOW = 80; // above and below it: the title, the axis
const LEGEND = 100;
const RATIO = 1.6; // of a plot's width to its height
const NARROW = 0.6; // of the panel's width
const NARROWEST = 200;
const STEP = 20; // a window that becomes a little narrower shows the same picture

/** The panel of a chart; its choices stand in the page's state. */
export class ChartPanel {
  /**
   * @param {string} url of the result
   * @param {HTMLElement} place the panel
   * @param {object} on changed(chart), closed()
   */
  constructor(url, place, on) {
    this.url = url;
    this.place = place;
    this.on = on;
  }

  /** Show the chart of a state, of which the columns are of the result. */
  show({ chart, filters }, columns) {
    this.place.hidden = !chart;
    if (!chart) return this.place.replaceChildren();
    if (!this.place.firstChild || this.columns !== columns) this.#make(columns, chart);
    this.#set(chart);
    this.#draw(filters);
    return undefined;
  }

  #make(columns) {
    this.columns = columns;
    const columnOptions = (empty) => [...(empty === undefined ? [] : [option("", empty)]), ...columns.map((column) => option(column.name, visible(column.name)))];
    const select = (words, name, ...options) => labelled(words, make("select", { name, onchange: () => this.on.changed(this.#read()) }, ...options));
    const units = BUCKETS.map(({ name }) => option(name, name));
    this.fields = {
      mark: select("Chart", "mark", ...MARKS.map(({ name, words }) => option(name, words))),
      x: select("Over", "x", ...columnOptions()),
      bucket: select("By", "bucket", option("", "each day"), ...units),
      scale: select("Scale", "scale", option("linear", "linear"), option("log", "logarithmic")),
      aggregate: select("Compute", "aggregate", ...AGGREGATES.map((name) => option(name, name.replaceAll("_", " ")))),
      y: select("Of", "y", ...columnOptions("(rows)")),
      y_bucket: select("By", "y_bucket", option("", "each day"), ...units.map((unit) => unit.cloneNode(true))),
      color: select("Colors", "color", ...columnOptions("(none)")),
      sort: select("Order", "sort", option("", "by name"), option("-y", "largest first"), option("y", "smallest first")),
    };
    for (const field of Object.values(this.fields)) field.dataset.words = field.firstChild.textContent;
    this.picture = make("img", { className: "chart", hidden: true });
    this.message = make("p", { role: "status" });
    this.files = make("div", { className: "tools" });
    this.place.replaceChildren(
      make("div", { className: "facet-head" }, make("h2", {}, "Chart"), this.files, make("button", { "aria-label": "Close the chart", onclick: () => this.on.closed() }, "✕")),
      make("div", { className: "beside" }, ...Object.values(this.fields)), this.message, this.picture);
  }

  #set(chart) {
    for (const [name, field] of Object.entries(this.fields)) field.lastChild.value = chart[name] ?? field.lastChild.options[0].value;
  }

  #read() {
    return Object.fromEntries(Object.entries(this.fields).flatMap(([name, field]) => (field.lastChild.value ? [[name, field.lastChild.value]] : [])));
  }

  #draw(filters) {
    const values = this.#read();
    const used = new Set(["mark", "x", ...MARKS.find(({ name }) => name === values.mark).uses]);
    const isDate = (name) => isTime(this.columns.find((column) => column.name === name));
    if (!isDate(values.x)) used.delete("bucket");
    if (!isDate(values.y)) used.delete("y_bucket");
    const query = new URLSearchParams();
    for (const [name, field] of Object.entries(this.fields)) {
      field.hidden = !used.has(name);
      field.firstChild.textContent = WORDS[values.mark]?.[name] ?? field.dataset.words;
      if (used.has(name) && values[name]) query.set(name, values[name]);
    }
    if (filters.length) query.set("filters", JSON.stringify(filters));
    this.picture.alt = [...used].filter((name) => values[name]).map((name) => `${this.fields[name].firstChild.textContent} ${values[name]}`).join(", ");
    this.#load(query);
  }

  /** The pixels of the plot's width: as wide as the panel, or so wide that all of it is in sight, if it stays readable. */
  #width(query) {
    const wide = this.place.clientWidth - BESIDE - (query.has("color") || query.get("mark") === "heatmap" ? LEGEND : 0);
    const high = this.place.clientHeight - (this.message.offsetTop - this.place.offsetTop) - BELOW;
    return Math.max(NARROWEST, Math.floor(Math.min(wide, Math.max(high * RATIO, wide * NARROW)) / STEP) * STEP);
  }

  /** The picture in the colors of the page. Files are light: they go into documents. */
  #load(query) {
    const address = (format) => `${this.url}/chart?${query}&format=${format}`;
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const source = `${address("svg")}&width=${this.#width(query)}${isDark ? "&theme=dark" : ""}`;
    if (this.picture.getAttribute("src") === source) return;
    this.message.textContent = "Drawing…";
    this.picture.onload = () => { this.message.textContent = ""; this.picture.hidden = false; };
    this.picture.onerror = () => {
      this.picture.hidden = true;
      send(this.picture.src, { method: "GET" }).then(() => "The picture could not be shown.", sentenceOf).then((words) => { this.message.textContent = words; });
    };
    this.picture.setAttribute("src", source);
    this.files.replaceChildren(...PICTURES.map((format) => make("a", { className: "button", href: address(format), download: `chart.${format}` }, `Save as ${format.toUpperCase()}`)));
  }
}

/** The chart that is shown first: of the groups, or of the first columns that fit; `values` are all rows, where they are few. */
export function firstChart(columns, group, values) {
  const keys = group ? keysOf(group) : [];
  if (keys.length) {
    const measure = group.aggregates.at(-1);
    return { mark: keys[0].bucket ? "line" : "bar", x: keys[0].column, bucket: keys[0].bucket, color: keys[1]?.column, aggregate: measure?.function, y: measure?.column };
  }
  const key = columns.find(isTime) ?? columns.find((column) => !isNumber(column));
  if (!key) return { mark: "histogram", x: columns[0].name };
  return chartOfGroups(columns, key, values) ?? (isTime(key) ? { mark: "line", x: key.name, bucket: "month" } : { mark: "bar", x: key.name });
}

/** The chart of rows that are groups already: each has keys of its own, and a number. Undefined for others. */
function chartOfGroups(columns, key, values) {
  const measure = columns.findLast(isNumber);
  if (!measure || !(values?.length > 1)) return undefined;
  const cell = (row, column) => (isTime(column) ? String(row[columns.indexOf(column)]).slice(0, DAY) : row[columns.indexOf(column)]);
  const differ = (...keys) => new Set(values.map((row) => JSON.stringify(keys.map((column) => cell(row, column))))).size === values.length;
  if (differ(key)) return { mark: isTime(key) ? "line" : "bar", x: key.name, bucket: isTime(key) ? "day" : undefined, aggregate: "max", y: measure.name };
  const other = columns.find((column) => column !== key && !isNumber(column) && !isTime(column) && differ(key, column));
  return other && { mark: "heatmap", x: key.name, bucket: isTime(key) ? "day" : undefined, y: other.name, aggregate: "max", color: measure.name };
}
