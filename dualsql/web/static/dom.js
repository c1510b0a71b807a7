// Elements of a page. Text is always text: nothing here parses HTML.

export const SLOW = 400; // milliseconds of reading after which it is said

/** An element with properties (aria-* and data-* as attributes, on* as listeners) and children. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.includes("-") || name === "role" || name === "for") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An element of a picture. */
export function shape(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** A dialog with a heading and a Close button; a click beside it closes it until something was written in it. Closed, it is removed. */
export function openDialog(title, ...children) {
  const dialog = make("dialog", { "aria-label": title, onclose: () => dialog.remove() },
    make("div", { className: "dialog-head" },
      make("h2", {}, title), make("button", { "aria-label": "Close", onclick: () => dialog.close() }, "✕")),
    ...children);
  let isChanged = false;
  dialog.addEventListener("input", () => { isChanged = true; });
  dialog.addEventListener("mousedown", ({ target, clientX, clientY }) => {
    const { left, right, top, bottom } = dialog.getBoundingClientRect();
    const isInside = clientX >= left && clientX <= right && clientY >= top && clientY <= bottom;
    if (target === dialog && !isInside && !isChanged) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** A button that copies a text, or what a function reads, and says whether that was allowed: a host's sandbox may keep the clipboard shut. */
export function copyButton(text, properties = {}) {
  const button = make("button", { ...properties, onclick: async () => {
    const writing = Promise.resolve(typeof text === "function" ? text() : text).then((whole) => navigator.clipboard?.writeText(whole).then(() => true));
    button.textContent = (await writing.catch(() => false)) ? "Copied" : "Not allowed here: select the text";
  } }, "Copy");
  return button;
}

export function saveFile(blob, name) {
  const address = URL.createObjectURL(blob);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** A button that saves the text that a function reads as a file. */
export function downloadButton(read, name) {
  const button = make("button", { onclick: async () => {
    try {
      saveFile(new Blob([await read()], { type: "text/plain" }), name);
    } catch {
      button.textContent = "Not read: try again";
    }
  } }, "Download this cell");
  return button;
}

/** Draw a place anew: what has the focus there keeps it, and where it is gone, `otherwise` gets it. */
export async function keepFocus(place, draw, otherwise) {
  const nameOf = (element) => element.ariaLabel || element.title || element.textContent;
  const focused = place.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  await draw();
  if (focused === null || document.activeElement !== document.body) return;
  ([...place.querySelectorAll("button, summary, input")].find((each) => nameOf(each) === focused) ?? otherwise)?.focus();
}

/** Menus close by Esc, and by a click elsewhere. */
export function closeMenus(place) {
  const open = () => place.querySelector("details[open]");
  document.addEventListener("click", (event) => { if (open() && !open().contains(event.target)) open().open = false; });
  place.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !open()) return;
    const menu = open();
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

export function option(value, text, isSelected = false) {
  return make("option", { value, selected: isSelected }, text);
}
