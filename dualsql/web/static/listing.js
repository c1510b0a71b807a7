// The list of results: pin, unpin and delete.

import { confirmDeletion } from "./dialogs.js";
import { make } from "./dom.js";
import { send, sentenceOf } from "./rows.js";

const message = document.getElementById("message");

for (const row of document.querySelectorAll("tr[data-url]")) {
  const { url } = row.dataset;
  const isPinned = row.dataset.status === "pinned";
  const act = async (address, method) => {
    try {
      await send(address, { method });
      location.reload();
    } catch (error) {
      message.textContent = sentenceOf(error);
    }
  };
  const name = row.cells[0].textContent.trim();
  row.querySelector(".actions").append(
    make("button", { "aria-label": `${isPinned ? "Unpin" : "Pin"} ${name}`, onclick: () => act(isPinned ? `${url}/pin` : url, isPinned ? "DELETE" : "PUT") }, isPinned ? "Unpin" : "Pin"),
    make("button", { "aria-label": `Delete ${name}`, onclick: async () => { if (await confirmDeletion()) act(url, "DELETE"); } }, "Delete"));
}
