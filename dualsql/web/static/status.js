// The line below the grid: which rows are seen, and sum, mean and number of the cells that are selected.

import { send } from "./rows.js";
import { grouped, isNumber } from "./values.js";

// Of a column; `figures` computes them of some cells, which no server knows.
const FIGURES = [
  "count",
  "sum",
  "avg",
];

/** The words for a selection: { columns, y0, y1 } of these rows. */
export function selectionInWords(rows, columns, { y0, y1 }) {
  const height = y1 - y0 + 1;
  const cells = height * columns.length;
  if (cells <= 1) return "";
  const size = `${grouped(height)} row${height === 1 ? "" : "s"} × ${grouped(columns.length)} column${columns.length === 1 ? "" : "s"}`;
  const numeric = columns.filter(isNumber);
  if (!numeric.length) return size;
  const texts = [];
  for (let y = y0; y <= y1; y += 1) {
    for (const column of numeric) {
      const value = rows.value(y, column.index);
      if (value === undefined) return `${size} (their sum is known when all are read)`;
      if (value !== null) texts.push(String(value));
    }
  }
  return `${size}: ${figures(texts)}`;
}

/** The figures of a column of all rows of a question, by the server. */
export async function columnInWords(url, question, column, signal) {
  const aggregates = FIGURES.map((name) => ({ function: name, column: column.name, as: name }));
  const { data: [row] } = await send(`${url}/query`, { body: { filters: question.filters, aggregates, big_integers: "string" }, signal });
  return `${column.name} of all rows: ${inWords(row.count, row.sum, row.avg)}`;
}

function figures(texts) {
  const total = exactSum(texts);
  return inWords(texts.length, total, texts.length ? Number(total) / texts.length : null);
}

function inWords(count, sum, mean) {
  const parts = [`count ${grouped(Number(count))}`];
  if (sum !== null) parts.push(`sum ${readable(sum)}`);
  if (mean !== null) parts.push(`mean ${readable(Number(Number(mean).toPrecision(6)))}`);
  return parts.join(", ");
}

function readable(value) {
  const text = String(value);
  return /^-?\d+$/.test(text) ? grouped(BigInt(text)) : Number.isFinite(Number(text)) ? new Intl.NumberFormat(undefined, { maximumFractionDigits: 10 }).format(text) : text;
}

/** The sum of numbers in decimal digits, exact; of floats with an exponent, as doubles add up. */
function exactSum(texts) {
  if (!texts.every((text) => /^-?\d+(\.\d+)?$/.test(text))) return String(texts.reduce((sum, text) => sum + Number(text), 0));
  const digits = Math.max(0, ...texts.map((text) => text.split(".")[1]?.length ?? 0));
  const sum = texts.reduce((all, text) => {
    const [whole, fraction = ""] = text.split(".");
    return all + BigInt(whole + fraction.padEnd(digits, "0"));
  }, 0n);
  const digitsOfSum = String(sum < 0n ? -sum : sum).padStart(digits + 1, "0");
  const end = digits ? `.${digitsOfSum.slice(-digits)}`.replace(/\.?0+$/, "") : "";
  return `${sum < 0n ? "-" : ""}${digits ? digitsOfSum.slice(0, -digits) : digitsOfSum}${end}`;
}
