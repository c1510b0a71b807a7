// The names of the rows that foreign keys refer to, which stand behind the keys.

import { send } from "./rows.js";
import { exact } from "./values.js";

const MOST = 100; // of a request: MOST_LABELS in tables.py
const PAUSE = 50; // milliseconds in which the rows on the screen say what they need

export class Labels {
  /** @param {string} home the address of the home page; changed is called when names have come */
  constructor(home, changed) {
    this.home = home;
    this.changed = changed;
    this.known = new Map(); // by the table, the column and the value: its name; null while it is not known
    this.needed = new Map(); // values by their reference
  }

  /** The name of the row that a value refers to; undefined where there is none, or none yet. */
  of(reference, value) {
    if (!reference.has_labels) return undefined;
    const key = keyOf(reference, value);
    if (!this.known.has(key)) {
      this.known.set(key, null);
      this.needed.set(reference, [...(this.needed.get(reference) ?? []), value]);
      this.timer ??= setTimeout(() => this.#read(), PAUSE);
    }
    return this.known.get(key) ?? undefined;
  }

  async #read() {
    const needed = [...this.needed];
    this.needed.clear();
    this.timer = undefined;
    const parts = needed.flatMap(([reference, values]) => Array.from({ length: Math.ceil(values.length / MOST) }, (_, index) => [reference, values.slice(index * MOST, (index + 1) * MOST)]));
    await Promise.all(parts.map(async ([reference, values]) => {
      const query = new URLSearchParams({ table: reference.uri, column: reference.column, values: JSON.stringify(values) });
      const pairs = await send(`${this.home}labels?${query}`, { method: "GET" }).catch(() => []); // the keys are there without it
      for (const [value, name] of pairs) if (name !== null) this.known.set(keyOf(reference, value), exact(name));
    }));
    this.changed();
  }
}

function keyOf({ uri, column }, value) {
  return JSON.stringify([uri, column, String(value)]);
}
