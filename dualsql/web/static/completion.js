// Names of tables and columns while SQL is written: a list below the field, of which Tab or Enter takes one.

import { make } from "./dom.js";

const MOST = 8;
const WORD = /(?:([\p{L}\p{N}_]+)\.)?([\p{L}\p{N}_]*)$/u;

/**
 * @param {HTMLTextAreaElement} field
 * @param {object[]} tables { name, columns }
 */
export function complete(field, tables) {
  const list = make("ul", { className: "completions", role: "listbox", id: "completions", "aria-label": "Names", hidden: true });
  for (const [name, value] of Object.entries({ "aria-autocomplete": "list", "aria-controls": "completions", "aria-haspopup": "listbox" })) field.setAttribute(name, value);
  field.after(list);
  let proposals = [];
  let place = 0;
  let start = 0;

  const close = () => { proposals = []; draw(); };

  function draw() {
    list.hidden = !proposals.length;
    list.replaceChildren(...proposals.map(({ name, of }, index) => make("li", {
      id: `completion-${index}`, role: "option", "aria-selected": String(index === place), onmousedown: (event) => { event.preventDefault(); take(index); },
    }, name, of ? make("span", { className: "facts" }, ` ${of}`) : "")));
    if (proposals.length) field.setAttribute("aria-activedescendant", `completion-${place}`);
    else field.removeAttribute("aria-activedescendant");
  }

  function look() {
    const before = field.value.slice(0, field.selectionStart);
    const [, table, word] = WORD.exec(before);
    start = before.length - word.length;
    proposals = table || word ? matches(table, word.toLowerCase()) : [];
    if (proposals.length === 1 && proposals[0].name === word) proposals = [];
    place = 0;
    draw();
  }

  function matches(table, word) {
    const owner = table && tables.find(({ name }) => name.toLowerCase() === table.toLowerCase());
    if (table && !owner) return [];
    const used = new Set(tables.filter(({ name }) => new RegExp(`\\b${name.replace(/\W/g, ".")}\\b`, "i").test(field.value)));
    const columns = (owner ? [owner] : tables.filter((one) => used.size === 0 || used.has(one))).flatMap(({ name, columns: names }) => names.map((column) => ({ name: column, of: name })));
    const all = owner ? columns : [...tables.map(({ name }) => ({ name, of: "table" })), ...columns];
    const fitting = all.filter(({ name }) => name.toLowerCase().startsWith(word));
    return fitting.filter((one, index) => fitting.findIndex((other) => other.name === one.name) === index).slice(0, MOST);
  }

  function take(index) {
    field.setRangeText(proposals[index].name, start, field.selectionStart, "end");
    close();
  }

  field.addEventListener("input", look);
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (!proposals.length || event.ctrlKey || event.metaKey) return;
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) place = (place + steps[event.key] + proposals.length) % proposals.length;
    else if (event.key === "Tab" || event.key === "Enter") take(place);
    else if (event.key === "Escape") proposals = [];
    else return;
    event.preventDefault();
    draw();
  });
}
