// One row as a card, and the rows of other tables that it refers to.

import { make, openDialog } from "./dom.js";
import { exact, grouped, shown, visible } from "./values.js";

/**
 * @param {object} row y, columns, values, follow(column, value) for columns with a reference, move(by) to a neighbour
 */
export function showCard({ y, columns, values, isExact, follow, move }) {
  const entries = columns.flatMap((column) => {
    const value = values[column.index];
    const { kind, text } = shown(value, column, isExact);
    const content = make("bdi", { className: kind === "null" || kind === "empty" ? "null" : "", title: exact(value).slice(0, 1000) }, text);
    return [make("dt", {}, make("bdi", {}, visible(column.name))),
      make("dd", {}, content, column.reference && value !== null ? make("button", { className: "follow", onclick: () => follow(column, value) }, `Row of ${column.reference.table}`) : null)];
  });
  const step = (by, words) => make("button", { onclick: () => { dialog.close(); move(by); } }, words);
  const dialog = openDialog(`Row ${grouped(y + 1)}`, make("dl", { className: "card", tabIndex: 0 }, ...entries),
    make("div", { className: "tools" }, step(-1, "Previous row"), step(1, "Next row")));
}

/** Open the row that a value refers to: the form of the home page, which only this browser can send. */
export async function openReferred(home, { uri, column }, value) {
  const page = new DOMParser().parseFromString(await (await fetch(home, { headers: { Accept: "text/html" } })).text(), "text/html");
  const token = page.querySelector("[name=form_token]")?.value ?? "";
  const fields = { form_token: token, table: uri, column, value: JSON.stringify(value) };
  const form = make("form", { method: "post", action: new URL("ask", new URL(home, location.href)).href, hidden: true },
    ...Object.entries(fields).map(([name, text]) => make("input", { name, value: text })));
  document.body.append(form);
  form.submit();
}
