// The lifetime of the result: pin, renew, delete, and the words in the head of the page.

import { make } from "./dom.js";
import { confirmDeletion } from "./dialogs.js";
import { forget, remember } from "./recent.js";
import { send } from "./rows.js";

const LONGEST_TIMER = 2 ** 31 - 1; // milliseconds

export class Lifetime {
  /**
   * @param {object} options url; place: the element that says it; may: { pin, delete }; isListed: this browser remembers it
   * @param {object} on attempt(work), say(text), changed(), deleted()
   */
  constructor({ url, place, may, isListed }, on) {
    Object.assign(this, { url, place, may, isListed, on });
    setInterval(() => this.#tick(), 20_000);
    this.#tick();
    this.#list();
  }

  get #isPinned() {
    return this.place.dataset.expires === undefined;
  }

  /** The buttons that the reader may press. */
  buttons() {
    return [
      this.may.pin && make("button", { onclick: () => this.#pin() }, this.#isPinned ? "Unpin" : "Pin"),
      this.may.pin && !this.#isPinned && make("button", { onclick: () => this.#renew(), title: "Start its lifetime again" }, "Renew"),
      this.may.delete && make("button", { onclick: () => this.#remove() }, "Delete"),
    ];
  }

  async #pin() {
    const answer = await this.on.attempt(() => send(this.#isPinned ? `${this.url}/pin` : this.url, { method: this.#isPinned ? "DELETE" : "PUT" }));
    if (answer) this.#lives(answer.expires_at);
  }

  /** A new lifetime: a result that is pinned and unpinned expires one lifetime from now. */
  async #renew() {
    const answer = await this.on.attempt(async () => {
      await send(this.url, { method: "PUT" });
      return send(`${this.url}/pin`, { method: "DELETE" });
    });
    if (!answer) return;
    this.#lives(answer.expires_at);
    this.on.say(`Renewed: the result ${this.place.textContent}.`);
  }

  async #remove() {
    if (!(await confirmDeletion())) return;
    if ((await this.on.attempt(() => send(this.url, { method: "DELETE" }))) !== null) return;
    clearTimeout(this.ending);
    this.place.dataset.deleted = "yes";
    this.place.textContent = "deleted";
    while (this.place.nextElementSibling) this.place.nextElementSibling.remove(); // for whom it was, and what they might do
    forget(location.pathname);
    this.on.deleted();
  }

  #lives(expiresAt) {
    if (expiresAt) this.place.dataset.expires = expiresAt;
    else delete this.place.dataset.expires;
    this.#tick();
    this.#list();
    this.on.changed();
  }

  #list() {
    if (this.isListed) remember({ url: location.pathname, name: document.title, expires: this.place.dataset.expires ?? null });
  }

  #tick() {
    clearTimeout(this.ending);
    if (this.place.dataset.deleted) return;
    if (this.#isPinned) {
      this.place.textContent = "pinned: kept until it is deleted";
      return;
    }
    const left = new Date(this.place.dataset.expires) - Date.now();
    const minutes = Math.floor(left / 60000);
    this.place.textContent = left <= 0 ? "expired" : minutes < 1 ? "expires in less than a minute"
      : minutes < 120 ? `expires in ${minutes} min` : `expires in ${Math.floor(minutes / 60)} hours`;
    if (left > 0) this.ending = setTimeout(() => this.#ended(), Math.min(left + 1000, LONGEST_TIMER)); // the server says whole seconds
  }

  /** The lifetime is over as far as this page knows; with sliding expiration, it may be longer. */
  async #ended() {
    this.#tick();
    const answer = await this.on.attempt(() => send(this.url, { method: "GET" }));
    if (answer) this.#lives(answer.expires_at);
  }
}
