// The page of a result whose query runs: how long it has, and a button that cancels the query.

import { make } from "./dom.js";
import { send, sentenceOf } from "./rows.js";

const place = document.getElementById("waiting");
const message = document.getElementById("message");
const since = new Date(place.dataset.since);
const seconds = document.getElementById("seconds");

setInterval(() => { seconds.textContent = ` So far: ${Math.max(0, Math.round((Date.now() - since) / 1000))} s.`; }, 1000);

if (place.dataset.delete === "yes") {
  const button = make("button", { onclick: async () => {
    button.disabled = true;
    try {
      await send(place.dataset.url, { method: "DELETE" });
      message.textContent = "Cancelled. Ask the question again to get its result.";
      place.remove();
      window.stop(); // the page does not look again
    } catch (error) {
      message.textContent = sentenceOf(error);
      button.disabled = false;
    }
  } }, "Cancel the query");
  place.append(make("div", { className: "tools" }, button));
}
