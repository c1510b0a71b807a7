/** Rows as CSV for a spreadsheet: no cell is run as a formula. */
import { exact, isNumber } from "./values.js";

/** As in formats/csv.py: a spreadsheet leaves out what nobody sees before a formula (U+2065 is reserved for such a sign). */
const FORMULA = /^(?:[\t\r\n]|[\p{Cc}\p{Cf}\p{Z}\u2065]*[=+\-@\uff1d\uff0b\uff0d\uff20])/u;
const NUMBER = /^[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** A line as the server writes it with guard_formulas: NULL is an empty field, an empty text is "". */
export function csvLine(values, columns = []) {
  return values.map((value, at) => cell(value, columns[at])).join(",");
}

function cell(value, column) {
  if (value === null || value === undefined) return "";
  const text = exact(value);
  const isSafe = typeof value !== "string" || (column && isNumber(column) && NUMBER.test(text));
  const guarded = !isSafe && FORMULA.test(text) ? `'${text}` : text;
  return guarded === "" || guarded !== text || /[",\r\n]/.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded;
}
