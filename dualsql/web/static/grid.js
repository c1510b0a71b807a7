// The rows as a grid: regular-table draws the cells that are on the screen, this file says which rows these are.
//
// A browser bounds the height of an element, so a scroll position in pixels cannot name each of ten million rows. The grid
// therefore keeps the number of its top row, and draws as many rows as fit. The scroll bar beside it is an element of its own.
//
// Which columns there are, and in which order, says the page: `shownColumns` in result.js.

import "./vendor/regular-table.js";
import { keepFocus, make } from "./dom.js";
import { sentenceOf } from "./rows.js";
import { exact, grouped, isNumber, visible } from "./values.js";

export const ROW = 29; // pixels, as in style.css
const SUMMARY = 46; // pixels, too
const TALLEST = 5_000_000; // pixels of the scroll bar's content
const MOST_TRIES = 20;
const NUMBERS = "#"; // the head of the numbers of rows
const MOST_COPIED = 100_000; // cells
const SLOWEST = 0.001; // rows in a millisecond, at which a table that was pushed stands still
const FRICTION = 0.997; // what is left of the speed after a millisecond
const REST = 60; // milliseconds of a finger that does not move: it stopped the table
const FOLLOWING = { asc: "desc", desc: undefined }; // orders, by clicks on a header

export class Grid {
  /**
   * @param {HTMLElement} host the element that the grid fills
   * @param {object} on sort(column, order, isAdded), menu(column), cell(value, column, index, cut), drawn(first), say(text),
   *   resized(widths) by the names of columns; cut, of a cell that is not whole: { characters, read }. A page may give more:
   *   summary(column), an element below a column's name; summarised(columns), those in view; follow(column, value) and label(column, value) of
   *   columns with a reference; selected(selection) when it changes; card(y); move(column, place), when a header was dragged
   */
  constructor(host, on) {
    this.on = on;
    this.rows = null;
    this.columns = [];
    this.frozen = 0; // columns, of the first ones: they are headers of rows to the table
    this.active = { x: 0, y: 0 };
    this.anchor = null; // the other corner of a selection
    this.top = 0;
    this.isMissing = false; // rows on the screen are not here yet
    this.drawn = 0; // rows on the screen
    this.rest = 0; // of a turn of the wheel, in rows
    this.host = host;
    this.table = document.createElement("regular-table");
    this.scrolled = make("div");
    this.scrollbar = make("div", { className: "scrollbar", "aria-hidden": "true" }, this.scrolled);
    host.replaceChildren(this.table, this.scrollbar);
    this.table.setDataListener((x0, y0, x1, y1) => this.#slice(x0, y0, x1, y1), { virtual_mode: "horizontal" });
    this.table.addStyleListener(() => this.#style());
    this.scrollbar.addEventListener("scroll", () => this.#scrolledBar());
    host.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    this.#touches();
    new ResizeObserver(() => this.#fit()).observe(host);
    this.table.addEventListener("keydown", (event) => this.#press(event));
    this.table.addEventListener("mousedown", (event) => this.#point(event));
    this.table.addEventListener("mouseover", (event) => this.#drag(event));
    this.table.addEventListener("dblclick", () => this.open());
    document.addEventListener("copy", (event) => this.#copy(event));
    document.addEventListener("mouseup", (event) => {
      this.#resized();
      this.#drop(event);
    });
  }

  /**
   * Show these columns of rows, of which the first were read; each column has the `index` of its values, `widths` pixels by names.
   * The columns that are `isFrozen` come first.
   */
  async show(rows, columns, { sort, widths = {}, keepsPlace = false }) {
    const activeName = this.columns[this.active.x]?.name;
    this.rows = rows;
    this.frozen = Math.min(columns.filter((column) => column.isFrozen).length, columns.length - 1);
    this.columns = columns.map((column) => {
      const place = sort.findIndex((key) => key.field === column.name);
      const sorted = { ...column, order: sort[place]?.order, place: sort.length > 1 && place >= 0 ? place + 1 : "" };
      return { ...sorted, headers: [this.#header(sorted), ...(this.on.summary ? [this.on.summary(column)] : [])] };
    });
    this.anchor = null;
    const x = this.columns.findIndex((column) => column.name === activeName);
    const isMoved = x >= 0 && x !== this.active.x;
    if (keepsPlace) this.active.x = x < 0 ? Math.min(this.active.x, columns.length - 1) : x;
    else {
      this.active = { x: 0, y: 0 };
      this.top = 0;
    }
    this.table.resetAutoSize({ auto: true, override: true, indices: true, row_height: false });
    this.table.restoreColumnSizes(Object.fromEntries(this.columns.flatMap((column, x) => (widths[column.name] ? [[x + 1, widths[column.name]]] : []))));
    await keepFocus(this.table, () => this.draw(), this);
    if (keepsPlace && isMoved) await this.#reveal(x);
  }

  /** The widths that the reader chose, in pixels, by the names of columns. */
  get widths() {
    const sizes = Object.entries(this.table.saveColumnSizes());
    return Object.fromEntries(sizes.flatMap(([key, width]) => (width && this.columns[key - 1] ? [[this.columns[key - 1].name, Math.round(width)]] : [])));
  }

  #resized() {
    const widths = JSON.stringify(this.widths);
    if (widths === this.reportedWidths) return;
    this.reportedWidths = widths;
    this.on.resized?.(this.widths);
  }

  /** The width of a column as it is drawn, in pixels. */
  widthOf(column) {
    const cells = [...this.table.querySelectorAll("thead th")];
    return Math.round(cells.find((cell) => this.#placeOf(cell)?.isHeader && this.columns[this.#placeOf(cell).x]?.name === column.name)?.offsetWidth ?? 0) || null;
  }

  /** Which column, and which row of the result, a cell is of; null for numbers of rows and what is above them. */
  #placeOf(cell) {
    const { type, x, y, row_header_x: header } = this.table.getMeta(cell) ?? {};
    if (type === "column_header") return { x: x + this.frozen, isHeader: true };
    if (type === "corner") return header > 0 ? { x: header - 1, isHeader: true } : null;
    if (type === "body") return { x: x + this.frozen, y: this.top + y };
    return type === "row_header" && header > 0 ? { x: header - 1, y: this.top + y } : null;
  }

  /** Draw in another height: the active cell stays in sight where it was. */
  #fit() {
    const { y } = this.active;
    if (y >= this.top + this.visible && y < this.top + this.drawn) this.top = y - this.visible + 1;
    return this.draw();
  }

  async draw() {
    if (!this.rows) return;
    this.drawn = this.visible;
    this.top = this.#within(this.top);
    this.scrolled.style.height = `${Math.min(TALLEST, this.rows.count * ROW)}px`;
    this.scrollbar.hidden = this.rows.count <= this.visible;
    const target = Math.round((this.top / Math.max(1, this.rows.count - this.visible)) * this.#barRange());
    if (Math.abs(this.scrollbar.scrollTop - target) >= 1) this.scrollbar.scrollTop = this.barTop = target;
    await this.table.draw({ invalid_viewport: true });
  }

  /** Bring a row to the top of the grid and make it the active one. Rejects as reading its page does. */
  async goTo(y) {
    const { rows } = this;
    const isThere = await rows.has(y);
    if (rows !== this.rows) return;
    this.on.say(isThere ? "" : `There is no row ${grouped(y + 1)}.`);
    if (!isThere) return;
    this.active = { ...this.active, y };
    this.anchor = null;
    this.top = this.active.y;
    await this.draw();
  }

  /** Whole rows that fit under the header. */
  get visible() {
    return Math.max(1, Math.floor((this.table.clientHeight - ROW - (this.on.summary ? SUMMARY : 0)) / ROW));
  }

  #within(y) {
    return Math.max(0, Math.min(Math.round(y), this.rows.count - this.visible));
  }

  #barRange() {
    return Math.max(1, this.scrollbar.scrollHeight - this.scrollbar.clientHeight);
  }

  #scrolledBar() {
    if (this.scrollbar.scrollTop === this.barTop) return; // the grid moved it
    this.barTop = this.scrollbar.scrollTop;
    this.top = this.#within((this.barTop / this.#barRange()) * (this.rows.count - this.visible));
    this.table.draw({ invalid_viewport: true });
  }

  #wheel(event) {
    if (event.ctrlKey || event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
    event.preventDefault();
    this.#turn(event.deltaY * [1 / ROW, 1, this.visible][event.deltaMode]);
  }

  #turn(rows) {
    this.rest += rows;
    const whole = Math.trunc(this.rest);
    if (!whole || !this.rows) return;
    this.rest -= whole;
    this.top = this.#within(this.top + whole);
    this.draw();
  }

  #touches() {
    let last = null;
    let speed = 0; // rows in a millisecond
    let gliding;
    const glide = (before) => (now) => {
      if (Math.abs(speed) < SLOWEST) return;
      this.#turn(speed * (now - before));
      speed *= FRICTION ** (now - before);
      gliding = requestAnimationFrame(glide(now));
    };
    const start = ({ touches: [{ clientY }], timeStamp }) => {
      cancelAnimationFrame(gliding);
      last = { clientY, timeStamp };
      speed = 0;
    };
    const move = ({ touches: [{ clientY }], timeStamp }) => {
      const rows = (last.clientY - clientY) / ROW;
      speed = rows / Math.max(1, timeStamp - last.timeStamp);
      last = { clientY, timeStamp };
      this.#turn(rows);
    };
    const end = ({ touches, timeStamp }) => {
      if (!touches.length && timeStamp - last.timeStamp < REST) gliding = requestAnimationFrame(glide(performance.now()));
    };
    for (const [name, listener] of Object.entries({ touchstart: start, touchmove: move, touchend: end })) {
      this.table.addEventListener(name, listener, { passive: true });
    }
  }

  /** The cell with its whole value. */
  open() {
    const column = this.columns[this.active.x];
    const value = this.rows.value(this.active.y, column?.index);
    if (value === undefined) return;
    const { rows } = this;
    const { y } = this.active;
    const characters = rows.cutAt(y, column.index);
    this.on.cell(value, column, y, characters && { characters, read: async () => (await rows.whole(y))[0]?.[column.index] });
  }

  focus() {
    this.table.querySelector("table")?.focus();
  }

  #slice(x0, y0, x1, y1) {
    const ys = Array.from({ length: Math.max(0, y1 - y0) }, (_, index) => this.top + y0 + index);
    const frozen = this.columns.slice(0, this.frozen);
    const columns = this.columns.slice(x0 + this.frozen, x1 + this.frozen);
    if (ys.length) this.rows.want(ys[0], ys.at(-1) + 1);
    const rows = ys.map((y) => this.rows.row(y));
    this.isMissing = rows.includes(undefined);
    const contentOf = (column, at) => this.#content(column, rows[at]?.[column.index], ys[at]);
    return Promise.resolve({
      num_rows: Math.min(this.visible, this.rows.count),
      num_columns: this.columns.length - this.frozen,
      num_row_headers: 1 + this.frozen,
      num_column_headers: this.on.summary ? 2 : 1,
      row_headers: ys.map((y, at) => [grouped(y + 1), ...frozen.map((column) => contentOf(column, at))]),
      column_headers: columns.map((column) => column.headers),
      data: columns.map((column) => ys.map((_, at) => contentOf(column, at))),
      merge_headers: "none",
    });
  }

  #content(column, cell, y) {
    if (!column.reference || cell === undefined || cell.kind === "null") return cell?.text ?? "";
    const value = this.rows.value(y, column.index);
    const name = this.on.label?.(column, value);
    const words = [column.reference.table, ...(name === undefined ? [] : [name])].map(visible).join(": ");
    return make("button", { className: "follow", tabIndex: -1, title: `Row of ${words}`, onclick: () => this.on.follow(column, value) },
      cell.text, name === undefined ? null : make("span", { className: "label" }, ` ${visible(name)}`));
  }

  #header(column) {
    const arrow = { asc: ` ▲${column.place}`, desc: ` ▼${column.place}` }[column.order] ?? "";
    return make("span", { className: "header" },
      make("button", { className: "sort", title: column.name, onclick: (event) => this.on.sort(column, column.order ? FOLLOWING[column.order] : "asc", event.shiftKey) },
        make("bdi", {}, visible(column.name)), arrow),
      make("button", { className: "more", "aria-label": `Options of ${column.name}`, "aria-haspopup": "dialog",
        onclick: () => this.on.menu(column) }, "⋮"));
  }

  #style() {
    const table = this.table.querySelector("table");
    if (!table || !this.rows) return;
    set(table, { role: "grid", tabindex: "0", "aria-label": "Rows of the result", "aria-rowcount": this.rows.isCounted ? this.rows.count + 1 : -1,
      "aria-colcount": this.columns.length + 1 });
    const selected = this.selection();
    for (const [number, tr] of [...(table.tHead?.rows ?? [])].entries()) this.#styleHead(tr, number > 0);
    const cut = this.#cutColumn();
    for (const tr of table.tBodies[0]?.rows ?? []) this.#styleRow(tr, selected, cut);
    set(table, { "aria-activedescendant": table.querySelector("#active-cell") ? "active-cell" : null }); // it may be out of sight
    this.on.selected?.(selected);
    const { first, last } = this.#drawnColumns();
    this.on.summarised?.([...this.columns.slice(0, this.frozen), ...this.columns.slice(first, last + 1)]);
    this.on.drawn(this.top);
  }

  #styleHead(tr, isSummary) {
    for (const th of tr.cells) {
      const { x } = this.#placeOf(th) ?? {};
      const column = this.columns[x];
      const isFrozen = x < this.frozen;
      if (isFrozen && th.firstChild !== column.headers[Number(isSummary)]) th.replaceChildren(column.headers[Number(isSummary)]);
      th.classList.toggle("frozen", isFrozen);
      th.classList.toggle("number", Boolean(column && isNumber(column)));
      th.classList.toggle("of-summary", isSummary);
      th.style.minWidth = th.style.maxWidth = column ? this.#chosenWidth(x) : ""; // the table sets it for one row of headers
      if (column && !isSummary) set(th, { scope: "col", "aria-sort": { asc: "ascending", desc: "descending" }[column.order] ?? "none", "aria-label": null, "aria-colindex": x + 2 });
      else if (column) set(th, { scope: "col", "aria-colindex": x + 2, "aria-sort": null, "aria-label": "Summary" });
      else if (isSummary) set(th, { role: "none" }); // above the numbers of rows there is no summary
      else this.#nameRows(th);
    }
  }

  /** The head of the numbers of rows: a sign that is seen, and what it means. */
  #nameRows(th) {
    if (th.firstChild?.textContent !== NUMBERS) th.firstChild?.replaceChildren(NUMBERS);
    set(th, { scope: "col", title: "Row number" });
  }

  #chosenWidth(x) {
    const width = this.table.saveColumnSizes()[x + 1];
    return width ? `${width}px` : "";
  }

  /** The column that the edge of the grid cuts. */
  #cutColumn() {
    const edge = this.table.getBoundingClientRect().right;
    const cell = [...(this.table.querySelector("tbody tr")?.cells ?? [])].find((each) => each.offsetWidth && each.getBoundingClientRect().left < edge && each.getBoundingClientRect().right > edge + 1);
    return cell && this.#placeOf(cell)?.x;
  }

  #styleRow(tr, selected, cut) {
    for (const cell of tr.cells) {
      const place = this.#placeOf(cell);
      if (place) this.#styleCell(cell, place, selected, place.x === cut);
      else {
        const { y } = this.table.getMeta(cell) ?? {};
        cell.className = "";
        cell.style.maxWidth = "";
        set(cell, { scope: "row", role: null, id: null, title: null, "aria-selected": null, "aria-colindex": null });
        set(tr, { "aria-rowindex": this.top + y + 2 });
      }
    }
  }

  #styleCell(cell, { x, y }, selected, isCut) {
    const column = this.columns[x];
    const shown = this.rows.row(y)?.[column?.index];
    const isActive = x === this.active.x && y === this.active.y;
    const isIn = Boolean(this.anchor) && x >= selected.x0 && x <= selected.x1 && y >= selected.y0 && y <= selected.y1;
    const classes = {
      cut: isCut, [shown?.kind ?? "missing"]: true, "of-numbers": column && isNumber(column), active: isActive, selected: isIn, frozen: x < this.frozen,
    };
    cell.className = Object.keys(classes).filter((name) => classes[name]).join(" ");
    cell.style.maxWidth = this.#chosenWidth(x);
    set(cell, {
      role: "gridcell", scope: null, id: isActive ? "active-cell" : null, title: shown?.whole ?? null, "aria-colindex": x + 2,
      "aria-selected": isActive || isIn ? "true" : null,
    });
  }

  selection() {
    const other = this.anchor ?? this.active;
    return {
      x0: Math.min(this.active.x, other.x), x1: Math.max(this.active.x, other.x),
      y0: Math.min(this.active.y, other.y), y1: Math.max(this.active.y, other.y),
    };
  }

  #point(event) {
    if (event.button !== 0) return;
    this.carried = this.on.move && !event.target.closest?.(".more, .summary, .rt-column-resize") ? this.#headerAt(event) : undefined;
    const cell = event.target.closest?.("td, tbody th");
    const place = cell && this.#placeOf(cell);
    if (!cell || event.target.closest(".follow")) return;
    this.selectsRows = !place;
    if (!place) this.#selectRows(this.top + this.table.getMeta(cell).y, event.shiftKey);
    else {
      this.anchor = event.shiftKey ? this.anchor ?? this.active : null;
      this.active = place;
    }
    this.focus();
    event.preventDefault();
    this.draw();
  }

  /** Select a row; or all rows from the first one that was selected to this one. */
  #selectRows(y, isAdded) {
    this.anchor = { x: this.columns.length - 1, y: isAdded ? (this.anchor ?? this.active).y : y };
    this.active = { x: 0, y };
  }

  #drag(event) {
    if (event.buttons !== 1) return;
    if (this.carried !== undefined) this.table.classList.toggle("carries", this.#headerAt(event) !== this.carried);
    const cell = event.target.closest?.("td, tbody th");
    const place = cell && this.#placeOf(cell);
    if (!cell || this.carried !== undefined || (place?.x === this.active.x && place.y === this.active.y)) return;
    if (this.selectsRows) this.#selectRows(this.table.getMeta(cell).y + this.top, true);
    else if (place) {
      this.anchor ??= this.active;
      this.active = place;
    }
    this.draw();
  }

  /** The place of the column whose header an event is on; undefined elsewhere. */
  #headerAt({ target }) {
    const cell = target.closest?.("thead th");
    return cell && this.table.contains(cell) ? this.#placeOf(cell)?.x : undefined;
  }

  /** A header that was dragged to another one: its column goes there. */
  #drop(event) {
    const [from, to] = [this.carried, this.#headerAt(event)];
    this.carried = undefined;
    this.table.classList.remove("carries");
    if (from !== undefined && to !== undefined && from !== to) this.on.move(this.columns[from], to);
  }

  #press(event) {
    if (event.target.closest("button")) return;
    if (event.altKey) this.#pressMenu(event);
    else this.#pressKey(event);
  }

  /** Alt and the arrow down open a column's options, as in spreadsheets; Alt and another key are the browser's. */
  #pressMenu(event) {
    if (event.key !== "ArrowDown") return;
    event.preventDefault();
    this.on.menu(this.columns[this.active.x]);
  }

  #pressKey(event) {
    const { x, y } = this.active;
    const page = Math.max(1, this.visible - 1);
    const isFar = event.ctrlKey || event.metaKey;
    const lastX = this.columns.length - 1;
    const lastY = this.rows.count - 1;
    const target = {
      ArrowUp: [x, y - 1], ArrowDown: [x, y + 1], ArrowLeft: [x - 1, y], ArrowRight: [x + 1, y],
      PageUp: [x, y - page], PageDown: [x, y + page],
      Home: isFar ? [0, 0] : [0, y], End: isFar ? [lastX, lastY] : [lastX, y],
    }[event.key];
    const isAll = isFar && event.key.toLowerCase() === "a";
    if (event.key === "Enter") this.open();
    else if (event.key === "Escape") this.anchor = null;
    else if (isAll) [this.anchor, this.active] = [{ x: lastX, y: lastY }, { x: 0, y: 0 }];
    else if (event.key === " ") this.on.card?.(y);
    else if (!target) return;
    event.preventDefault();
    if (target) {
      this.anchor = event.shiftKey ? this.anchor ?? this.active : null;
      this.#move(Math.max(0, Math.min(target[0], lastX)), Math.max(0, Math.min(target[1], lastY)));
    } else this.draw();
  }

  async #move(x, y) {
    this.active = { x, y };
    if (y < this.top) this.top = y;
    else if (y >= this.top + this.visible) this.top = y - this.visible + 1;
    await this.draw();
    await this.#reveal(x);
  }

  /** The first and the last column that are drawn beside the frozen ones; the last one may be cut. */
  #drawnColumns() {
    const places = [...this.table.querySelectorAll("thead tr:first-child th")].map((cell) => this.#placeOf(cell)?.x).filter((x) => x >= this.frozen);
    return { first: places[0] ?? 0, last: places.at(-1) ?? 0 };
  }

  /** Scroll sideways until a column is whole, as far as it fits. How wide those out of sight are is known when they are drawn. */
  async #reveal(x) {
    let before = null;
    for (let tries = 0; tries < MOST_TRIES && x === this.active.x && x >= this.frozen; tries += 1) {
      const { first, last } = this.#drawnColumns();
      if (x === first || (x > first && x <= last && this.#isWhole())) return;
      const target = x < first ? x : x > last ? Math.max(first + 1, x - (last - first)) : first + 1;
      await this.table.scrollToCell(target - this.frozen, 0);
      await this.draw();
      const place = `${this.table.scrollLeft} ${this.table.scrollWidth}`;
      if (place === before) return; // there is nothing more
      before = place;
    }
  }

  #isWhole() {
    const box = this.table.querySelector(".active")?.getBoundingClientRect();
    return Boolean(box) && box.right <= this.table.getBoundingClientRect().right;
  }

  /** Copy the selection as TSV, with a head when it has several rows. */
  #copy(event) {
    if (!this.table.contains(document.activeElement) && document.activeElement !== this.table) return;
    const { x0, x1, y0, y1 } = this.selection();
    const columns = this.columns.slice(x0, x1 + 1);
    if ((y1 - y0 + 1) * columns.length > MOST_COPIED) return this.on.say(`At most ${grouped(MOST_COPIED)} cells are copied. Use Download.`);
    const lines = [];
    let isCut = false;
    for (let y = y0; y <= y1; y += 1) {
      const row = columns.map((column) => this.rows.value(y, column.index));
      if (row.includes(undefined)) return this.on.say("Some selected rows are not loaded. Scroll over them, or use Download.");
      isCut ||= columns.some((column) => this.rows.cutAt(y, column.index) !== undefined);
      lines.push(row.map((value) => tsv(exact(value))).join("\t"));
    }
    event.preventDefault();
    const copied = lines.length > 1 ? `Copied ${grouped(lines.length)} rows with their header.` : "Copied.";
    if (isCut) return this.#copyWhole(columns, y0, y1, copied);
    event.clipboardData.setData("text/plain", withHead(lines, columns));
    return this.on.say(copied);
  }

  /** Copy rows of which the grid has only the beginning of some cells. */
  async #copyWhole(columns, y0, y1, copied) {
    const { rows } = this;
    this.on.say("Reading…");
    try {
      const lines = [];
      for (let y = y0; y <= y1; y += rows.limit) {
        const values = await rows.whole(y, Math.min(rows.limit, y1 - y + 1));
        lines.push(...values.map((row) => columns.map((column) => tsv(exact(row[column.index]))).join("\t")));
      }
      await navigator.clipboard.writeText(withHead(lines, columns));
      this.on.say(copied);
    } catch (error) {
      this.on.say(`Not copied. ${error.name === "NotAllowedError" ? "The browser did not allow it. Use Download." : sentenceOf(error)}`);
    }
  }
}

function withHead(lines, columns) {
  return (lines.length > 1 ? [columns.map((column) => tsv(column.name)).join("\t"), ...lines] : lines).join("\n");
}

function tsv(text) {
  return /[\t\n\r"]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}
