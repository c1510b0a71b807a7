// A bar chart of an answer with groups, as SVG.

import { make, shape } from "./dom.js";
import { isNumber } from "./values.js";

const NARROWEST = 24; // pixels of a bar with its gap
const WIDEST = 96;
const HEIGHT = 120;
const ABOVE = 16; // for the values
const MOST = 50; // bars
const LETTER = 6.5; // pixels, about

/**
 * Draw the bars of an answer with groups, in the place of those of an earlier one: the last number of each of the first groups.
 * @param {Rows} rows of the answer, of which the first page was read
 * @param {object?} group of the question
 * @param {HTMLElement} place they stand before it, and are as wide
 */
export function drawBars(rows, group, place) {
  document.getElementById("chart")?.remove();
  const figure = barsOf(rows, group?.by.length, place.clientWidth);
  if (figure) place.before(figure);
}

/** Null where there is nothing to draw. The first `keys` columns are groups. */
function barsOf(rows, keys, width) {
  const value = rows.columns.findLastIndex((column) => isNumber(column));
  if (!keys || !rows.count || value < keys) return null;
  const marks = [];
  for (let index = 0; index < Math.min(rows.count, MOST) && rows.row(index); index += 1) {
    const cells = rows.row(index);
    marks.push({ label: cells.slice(0, keys).map((cell) => cell.text).join(", "), value: finite(rows.value(index, value)), text: cells[value].text });
  }
  const labels = rows.columns.slice(0, keys).map((column) => column.name).join(" and ");
  return bars(marks, rows.columns[value].name, labels, { width, isAll: marks.length === rows.count });
}

/**
 * A figure of the marks, each { label, value, text }; a value that is no number (NULL) has no bar. Both names are of columns.
 * @param {object} options width: pixels that there are; isAll: whether these are all groups
 */
function bars(marks, valueName, labelName, { width = 600, isAll = true } = {}) {
  const step = Math.max(NARROWEST, Math.min(WIDEST, Math.floor((width - 16) / marks.length)));
  const fits = (text) => text.length * LETTER <= step - 4;
  const isFlat = marks.every((mark) => fits(mark.label));
  const hasValues = marks.every((mark) => fits(short(mark)));
  const below = isFlat ? 18 : 64;
  const most = Math.max(...marks.map((mark) => mark.value ?? 0), 0);
  const least = Math.min(...marks.map((mark) => mark.value ?? 0), 0);
  const scale = HEIGHT / (most - least || 1);
  const zero = most * scale + ABOVE;
  const words = `${valueName} by ${labelName}${isAll ? "" : `, the first ${marks.length}`}`;
  const all = { width: marks.length * step + (isFlat ? 8 : 48), height: ABOVE + HEIGHT + below };
  const svg = shape("svg", { ...all, role: "img", "aria-label": words });
  marks.forEach((mark, index) => svg.append(...draw(mark, index * step + 4)));
  svg.append(shape("line", { x1: 0, x2: marks.length * step + 4, y1: zero, y2: zero, class: "axis" }));
  return make("figure", { id: "chart", tabIndex: 0 }, make("figcaption", {}, words), svg);

  function draw(mark, x) {
    const size = mark.value === null ? 0 : Math.max(Math.abs(mark.value) * scale, 1);
    const top = mark.value < 0 ? zero : zero - size;
    const bar = shape("rect", { x, y: top, width: step - 4, height: size, rx: 2, class: "bar-mark" });
    bar.append(shape("title", {}, `${mark.label}: ${mark.text}`));
    const middle = x + (step - 4) / 2;
    const y = ABOVE + HEIGHT + 13;
    const place = isFlat ? { x: middle, y, "text-anchor": "middle" } : { x: middle - 3, y: y - 2, transform: `rotate(45 ${middle - 3} ${y - 2})` };
    const label = shape("text", place, mark.label.length > 12 && !isFlat ? `${mark.label.slice(0, 11)}…` : mark.label);
    return hasValues ? [bar, label, shape("text", { x: middle, y: top - 4, "text-anchor": "middle" }, short(mark))] : [bar, label];
  }
}

/** The number; null for NULL and for what is none (NaN, Infinity). */
function finite(value) {
  return value !== null && Number.isFinite(Number(value)) ? Number(value) : null;
}

function short(mark) {
  if (mark.value === null) return mark.text;
  return new Intl.NumberFormat(undefined, { maximumSignificantDigits: 4 }).format(mark.value);
}
