// Files of what is seen: the filters, the order, the columns and the groups of the page, through the server's streams.

import { make, saveFile } from "./dom.js";
import { Problem, isAsked, orderBy } from "./rows.js";
import { visible } from "./values.js";

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
 * Point a link at what is seen; what no link can say is fetched when it is clicked.
 * @param {HTMLAnchorElement} link of a format, for all rows
 * @param {object} seen state, columns in their order, body of the question, url of the result
 * @param {function} attempt runs work(signal) and tells the person
 * @param {function} say tells the person
 */
export function setFileLink(link, { state, columns, body, url }, attempt, say) {
  const address = new URL(link.href);
  const names = columnsOf(state, columns);
  const sort = state.sort.map((key) => (key.order === "desc" ? `-${key.field}` : key.field)).join(",");
  const isLink = fitsLink(state, names);
  for (const [name, value] of Object.entries({ sort, columns: names?.join(",") })) {
    if (value && isLink) address.searchParams.set(name, value);
    else address.searchParams.delete(name);
  }
  link.href = address.href;
  const save = isLink
    ? (texts, signal) => followed(address, texts, signal)
    : (texts, signal) => fetchFile(`${url}/query`, { ...bodyOf(address, state, names, body), ...(texts.length ? { text_columns: texts } : {}) }, signal);
  // The browser says nothing of a link that the server refuses.
  link.onclick = isLink && !("typed" in link.dataset) ? null : async (event) => {
    event.preventDefault();
    const texts = await attempt((signal) => withTexts((some) => save(some, signal)));
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

/** Follow a link, unless the server refuses it. */
async function followed(address, texts, signal) {
  const whole = new URL(address);
  if (texts.length) whole.searchParams.set("text_columns", texts.join(","));
  const controller = new AbortController();
  signal.addEventListener("abort", () => controller.abort());
  const response = await fetch(whole, { signal: controller.signal, redirect: "manual" });
  if (!response.ok) throw new Problem(response.status || 401, await response.json().catch(() => null));
  controller.abort(); // the browser reads it anew, and writes the file while it comes
  make("a", { href: whole.href, download: "" }).click();
}

function bodyOf(address, state, names, body) {
  const { sort, ...question } = body;
  const order = isAsked(state) ? {} : { order_by: orderBy(state.sort) };
  const options = Object.fromEntries([...address.searchParams].map(([name, value]) => [name, value === "true" ? true : value]));
  return { ...question, ...order, ...options, ...(names ? { columns: names } : {}) };
}

/** Save the answer as a file. A stream that breaks rejects, and nothing is saved. */
async function fetchFile(address, body, signal) {
  const response = await fetch(address, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal, redirect: "manual",
  });
  if (!response.ok) throw new Problem(response.status || 401, await response.json().catch(() => null));
  saveFile(await response.blob(), nameIn(response.headers.get("Content-Disposition") ?? ""));
}

function nameIn(disposition) {
  const [, encoded] = /filename\*=UTF-8''([^;]+)/i.exec(disposition) ?? [];
  const [, plain] = /filename="?([^";]+)"?/i.exec(disposition) ?? [];
  return encoded ? decodeURIComponent(encoded) : plain ?? "rows";
}
