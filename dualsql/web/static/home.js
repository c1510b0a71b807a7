// The home page: copy buttons beside the snippets.

import { make } from "./dom.js";

for (const snippet of document.querySelectorAll("pre.snippet")) {
  const button = make("button", { onclick: async () => {
    await navigator.clipboard.writeText(snippet.textContent);
    button.textContent = "Copied";
  } }, "Copy");
  snippet.before(button);
}
