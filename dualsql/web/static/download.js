// Files of what is seen: the filters, the order, the columns and the groups of the page, through the server's streams.

import { saveFile } from "./dom.js";
import { Problem, isAsked, orderBy } from "./rows.js";
import { visible } from "./values.js";

const LAST = 100_000; // bytes, in which the reason of a failure stands

/** Names of the columns that are shown; undefined where all are, in their own order. */
function columnsOf(state, columns) {
  const names = columns.map((column) => column.name);
  return !state.group && (state.hidden.length || state.order.length || state.frozen.length) ? names.filter((name) => !state.hidden.includes(name)) : undefined;
}

/** Whether a link can say all of it. A link is better: the browser writes the file while it comes. */
function fitsLink(state, names) {
  return !isAsked(state) && ![...(names ?? []), ...state.sort.map((key) => key.field)].some((name) => name.includes(",") || name.startsWith("-"));
}

/**
 * Point a link at what is seen. What no link can say, and what its types may not hold, is read when it is clicked: the browser
 * says nothing of a link that the server refuses or cuts off.
 * @param {HTMLAnchorElement} link of a format, for all rows
 * @param {object} seen state, columns in their order, body of the question, url of the result
 * @param {function} attempt runs work(signal) and tells the person
 * @param {function} say tells the person
 */
export function setFileLink(link, { state, columns, body, url }, attempt, say) {
  const address = new URL(link.href);
  address.searchParams.delete("sort");
  address.searchParams.delete("columns");
  const names = columnsOf(state, columns);
  const whole = new URL(address);
  if (names) whole.searchParams.set("columns", names.join(","));
  if (state.sort.length) whole.searchParams.set("sort", state.sort.map((key) => (key.order === "desc" ? `-${key.field}` : key.field)).join(","));
  const isLink = fitsLink(state, names);
  link.href = (isLink ? whole : address).href;
  const ask = (texts, signal, format = address.searchParams.get("format")) => {
    const parameters = { format, ...(texts.length ? { text_columns: texts } : {}) };
    if (!isLink || texts.some((name) => name.includes(","))) {
      return fetch(`${url}/query`, {
        method: "POST", headers: { "Content-Type": "application/json" }, redirect: "manual", signal,
        body: JSON.stringify({ ...bodyOf(address, state, names, body), ...parameters }),
      });
    }
    const target = new URL(whole);
    for (const [name, value] of Object.entries(parameters)) target.searchParams.set(name, value);
    return fetch(target, { redirect: "manual", signal });
  };
  link.onclick = isLink && !("typed" in link.dataset) ? null : async (event) => {
    event.preventDefault();
    const texts = await attempt((signal) => withTexts((some) => saveAnswer(ask, some, signal)));
    if (texts?.length) say(`Saved as text: ${texts.map(visible).join(", ")}, with values that the type of the column does not hold.`);
  };
}

/** Save a file; columns with values that their type cannot hold are texts in it. Their names. */
async function withTexts(save) {
  for (const texts = []; ;) {
    try {
      await save(texts);
      return texts;
    } catch (error) {
      const more = error.textColumns?.filter((name) => !texts.includes(name)) ?? [];
      if (!more.length) throw error;
      texts.push(...more);
    }
  }
}

function bodyOf(address, state, names, body) {
  const { sort, ...question } = body;
  const order = isAsked(state) ? {} : { order_by: orderBy(state.sort) };
  const options = Object.fromEntries([...address.searchParams].map(([name, value]) => [name, value === "true" ? true : value]));
  return { ...question, ...order, ...options, ...(names ? { columns: names } : {}) };
}

/** Save the answer as a file, if it is whole: of one that breaks off nothing is saved, and the reason is thrown. */
async function saveAnswer(ask, texts, signal) {
  const response = await answerOf(ask(texts, signal));
  const file = await response.blob().catch(unlessAborted);
  // A format that cannot say why it breaks off is asked for again as Arrow, which ends with the reason.
  const reason = await reasonIn(file ?? await answerOf(ask(texts, signal, "arrow")).then((other) => other.blob()).catch(unlessAborted));
  if (reason) throw new Problem(response.status, reason);
  if (!file) throw new Problem(response.status, { message: "The file broke off, and nothing is saved.", hint: "Try again." });
  saveFile(file, nameIn(response.headers.get("Content-Disposition") ?? ""));
}

async function answerOf(asking) {
  const response = await asking;
  if (!response.ok) throw new Problem(response.status || 401, await response.json().catch(() => null));
  return response;
}

function unlessAborted(error) {
  if (error.name === "AbortError") throw error;
  return null;
}

/** The problem that a failed stream of NDJSON or Arrow ends with; null of one that is whole. */
async function reasonIn(file) {
  const text = await file?.slice(-LAST).text() ?? "";
  const line = text.slice(text.lastIndexOf("\n", text.length - 2) + 1);
  if (line.startsWith('{"$problem":')) return JSON.parse(line).$problem;
  // In Arrow, it is a text of the last message's metadata; a message is announced that does not follow.
  const begin = text.endsWith("\b\0\0\0") ? text.lastIndexOf('{"code":') : -1;
  return begin < 0 ? null : JSON.parse(text.slice(begin).split("\0", 1)[0]);
}

function nameIn(disposition) {
  const [, encoded] = /filename\*=UTF-8''([^;]+)/i.exec(disposition) ?? [];
  const [, plain] = /filename="?([^";]+)"?/i.exec(disposition) ?? [];
  return encoded ? decodeURIComponent(encoded) : plain ?? "rows";
}
