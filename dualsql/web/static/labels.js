// The names of the rows that foreign keys refer to, which stand behind the keys.

import { send } from "./rows.js";

const MOST = 100; // values of a key in a request: _MOST_LABELS in references.py
const MOST_KEYS = 50; // of a request: _MOST_KEYS in home.py
const LONGEST = 200; // characters of a value: _LONGEST_KEY in references.py
const MOST_CHARACTERS = 20_000; // of the values of a request, whose body the server bounds
const MOST_KNOWN = 20_000; // names that are kept
const PAUSE = 50; // milliseconds in which the rows on the screen say what they need

export class Labels {
  /** @param {string} home the address of the home page; changed is called when names have come */
  constructor(home, changed) {
    this.home = home;
    this.changed = changed;
    this.known = new Map(); // by the table, the column and the value: its name; null while it is not known
    this.needed = new Map(); // values by their reference
    this.isReading = false;
  }

  /** The name of the row that a value refers to; undefined where there is none, or none yet. */
  of(reference, value) {
    if (!reference.has_labels || String(value).length > LONGEST) return undefined;
    const key = keyOf(reference, value);
    if (!this.known.has(key)) {
      if (this.known.size >= MOST_KNOWN) this.known.clear();
      this.known.set(key, null);
      this.needed.set(reference, [...(this.needed.get(reference) ?? []), value]);
      this.#start();
    }
    return this.known.get(key) ?? undefined;
  }

  /** One request at a time, for all keys on the screen, after the rows were drawn. */
  #start() {
    if (this.isReading || !this.needed.size) return;
    this.isReading = true;
    setTimeout(() => this.#read(), PAUSE);
  }

  async #read() {
    // Those that were drawn last. The others are asked for when they are drawn again.
    const queries = [];
    let characters = 0;
    for (const [reference, values] of [...this.needed].reverse()) {
      const some = values.slice(-MOST).filter((value) => (characters += String(value).length + 3) <= MOST_CHARACTERS);
      if (queries.length < MOST_KEYS && some.length) queries.push([reference, some]);
      for (const value of values) if (queries.at(-1)?.[0] !== reference || !some.includes(value)) this.known.delete(keyOf(reference, value));
    }
    this.needed.clear();
    const keys = queries.map(([{ uri, column }, values]) => ({ table: uri, column, values }));
    const answers = await send(`${this.home}labels`, { body: { keys } }).catch(() => []); // the keys are there without it
    answers.forEach((pairs, index) => {
      for (const [value, name] of pairs) if (name !== null) this.known.set(keyOf(queries[index][0], value), name);
    });
    this.isReading = false;
    this.changed();
    this.#start();
  }
}

function keyOf({ uri, column }, value) {
  return JSON.stringify([uri, column, String(value)]);
}
