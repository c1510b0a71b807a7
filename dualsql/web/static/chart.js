// The dialog with a chart of what is on the screen. The server draws it from all rows.

import { VOCABULARY, labelled } from "./dialogs.js";
import { make, openDialog, option } from "./dom.js";
import { send, sentenceOf } from "./rows.js";
import { isNumber, visible } from "./values.js";

const { aggregates: AGGREGATES, buckets: BUCKETS } = VOCABULARY;
const MARKS = { bar: "Bars", line: "Line", point: "Points", histogram: "Histogram", heatmap: "Heat map" };
const USED = { // which fields a mark has
  bar: ["bucket", "aggregate", "y", "color", "sort"], line: ["bucket", "aggregate", "y", "color"], point: ["y", "color"],
  histogram: ["scale"], heatmap: ["bucket", "aggregate", "y", "color", "y_bucket"],
};
const WORDS = { heatmap: { y: "Other axis", color: "Of" }, point: { y: "Height" } };

/**
 * @param {string} url of the result
 * @param {object[]} columns of the result
 * @param {object} state filters and group of the page
 */
export function showChart(url, columns, { filters, group }) {
  const { mark, ...chosen } = beginning(columns, group);
  const named = (some, empty) => [...(empty === undefined ? [] : [option("", empty)]), ...some.map((column) => option(column.name, visible(column.name)))];
  const select = (name, ...options) => {
    const element = make("select", { name, onchange: () => draw() }, ...options);
    element.value = chosen[name] ?? element.options[0].value;
    return element;
  };
  const fields = {
    x: labelled("Over", select("x", ...named(columns))),
    bucket: labelled("By", select("bucket", option("", "each day"), ...BUCKETS.map((name) => option(name, name)))),
    scale: labelled("Scale", select("scale", option("linear", "linear"), option("log", "logarithmic"))),
    aggregate: labelled("Compute", select("aggregate", ...AGGREGATES.map((name) => option(name, name.replaceAll("_", " "))))),
    y: labelled("Of", select("y", ...named(columns, "(rows)"))),
    y_bucket: labelled("By", select("y_bucket", option("", "each day"), ...BUCKETS.map((name) => option(name, name)))),
    color: labelled("Colors", select("color", ...named(columns, "(none)"))),
    sort: labelled("Order", select("sort", option("", "by name"), option("-y", "largest first"), option("y", "smallest first"))),
  };
  const marks = make("select", { onchange: () => draw() }, ...Object.entries(MARKS).map(([name, words]) => option(name, words)));
  marks.value = mark;
  const picture = make("img", { className: "chart" });
  const message = make("p", { role: "status" });
  const files = make("div", { className: "tools" });
  const isDate = (name) => columns.find((column) => column.name === name)?.type === "date";

  function draw() {
    const used = new Set(["x", ...USED[marks.value]]);
    if (!isDate(fields.x.lastChild.value)) used.delete("bucket");
    if (!isDate(fields.y.lastChild.value)) used.delete("y_bucket");
    const query = new URLSearchParams({ mark: marks.value });
    for (const [name, field] of Object.entries(fields)) {
      field.hidden = !used.has(name);
      field.firstChild.textContent = WORDS[marks.value]?.[name] ?? field.dataset.words;
      const { value } = field.lastChild;
      if (!field.hidden && value) query.set(name, value);
    }
    if (filters.length) query.set("filters", JSON.stringify(filters));
    const address = (format) => `${url}/chart?${query}&format=${format}`;
    message.textContent = "Drawing…";
    picture.onload = () => { message.textContent = ""; picture.hidden = false; };
    picture.onerror = () => {
      picture.hidden = true;
      send(picture.src, { method: "GET" }).then(() => "The picture could not be shown.", sentenceOf).then((words) => { message.textContent = words; });
    };
    picture.alt = [MARKS[marks.value], ...[...used].map((name) => `${fields[name].firstChild.textContent} ${fields[name].lastChild.value}`)].join(", ");
    picture.src = address("svg");
    files.replaceChildren(...["svg", "png"].map((format) => make("a", { className: "button", href: address(format), download: `chart.${format}` }, `Save as ${format.toUpperCase()}`)));
  }

  for (const field of Object.values(fields)) field.dataset.words = field.firstChild.textContent;
  openDialog("Chart", make("div", { className: "beside" }, labelled("Chart", marks), ...Object.values(fields)), message, picture, files);
  draw();
}

/** The chart that is shown first: of the groups, or of the first columns that fit. */
function beginning(columns, group) {
  const keys = (group?.by ?? []).map((key) => (typeof key === "string" ? { column: key } : key));
  if (keys.length) {
    const measure = [...group.aggregates].reverse().map((each) => (typeof each === "string" ? { function: each } : each))[0];
    return { mark: keys[0].bucket ? "line" : "bar", x: keys[0].column, bucket: keys[0].bucket, color: keys[1]?.column, aggregate: measure?.function, y: measure?.column };
  }
  const key = columns.find((column) => column.type === "date") ?? columns.find((column) => !isNumber(column));
  const value = columns.find((column) => isNumber(column) && column !== columns[0]);
  if (!key) return { mark: "histogram", x: columns[0].name };
  const over = key.type === "date" ? { mark: "line", x: key.name, bucket: "month" } : { mark: "bar", x: key.name };
  return value ? { ...over, aggregate: "sum", y: value.name } : over;
}
