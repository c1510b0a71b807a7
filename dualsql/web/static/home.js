// The home page: the field for SQL with its keys and names, the tables with their rows, recent results, copy buttons.

import { complete } from "./completion.js";
import { copyButton, make } from "./dom.js";
import { recentResults } from "./recent.js";
import { send } from "./rows.js";
import { visible } from "./values.js";

for (const snippet of document.querySelectorAll("pre.snippet")) {
  const name = snippet.previousElementSibling?.textContent ?? "";
  snippet.before(copyButton(snippet.textContent, { className: "copy", "aria-label": `Copy: ${name}` }));
}

const FEW = 3; // tables that need no search
const tables = [...document.querySelectorAll(".table")];
const counted = [...document.querySelectorAll("[data-count]")];

if (tables.length > FEW) {
  const status = make("p", { className: "facts", role: "status" });
  const input = make("input", { type: "search", placeholder: "Find a table or column", "aria-label": "Find a table or column" });
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const table of tables) table.hidden = !words.every((word) => table.textContent.toLowerCase().includes(word));
    status.textContent = words.length ? `${tables.filter((table) => !table.hidden).length} found` : "";
  });
  document.getElementById("find").append(input, status);
}

// The tables are counted when the page is there; what could not be counted has no number.
if (counted.length) {
  send("counts", { method: "GET" }).then((counts) => {
    for (const place of counted) place.textContent = counts[place.dataset.count] ?? "";
  }, () => {});
}

const sql = document.querySelector("textarea[name=sql]");
document.getElementById("keys").textContent = "Ctrl+Enter runs it; Tab takes a name.";
sql.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) sql.form.requestSubmit();
});
complete(sql, tables.map((table) => ({
  name: table.querySelector("code").textContent,
  columns: [...table.querySelectorAll("code.column")].map((column) => column.textContent),
})));
if (sql.value) sql.focus();

const recent = document.getElementById("recent");
const results = recent.hidden ? [] : recentResults();
if (results.length) {
  recent.append(make("h2", {}, "Recent in this browser"), make("ul", { className: "plain" }, ...results.slice(0, 10).map(({ url, name, expires }) =>
    make("li", {}, make("a", { href: url }, make("bdi", {}, visible(name))), expires === null ? make("span", { className: "facts" }, " pinned") : ""))));
}
