// The home page: copy buttons beside the snippets, and a field that finds tables.

import { copyButton, make } from "./dom.js";

for (const snippet of document.querySelectorAll("pre.snippet")) {
  const name = snippet.previousElementSibling?.textContent ?? "";
  snippet.before(copyButton(snippet.textContent, { className: "copy", "aria-label": `Copy: ${name}` }));
}

const FEW = 8; // tables that need no search
const tables = [...document.querySelectorAll(".table")];

if (tables.length > FEW) {
  const found = make("p", { className: "facts", role: "status" });
  const input = make("input", { type: "search", placeholder: "Find a table or column", "aria-label": "Find a table or column" });
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const table of tables) table.hidden = !words.every((word) => table.textContent.toLowerCase().includes(word));
    found.textContent = words.length ? `${tables.filter((table) => !table.hidden).length} found` : "";
  });
  document.getElementById("find").append(input, found);
}
