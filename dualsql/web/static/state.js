// What a person looks at: it stands behind the # of the address, which is not sent to any server.

/** Each part: what it is without a word in the address, and whether it is worth a word. */
const PARTS = {
  sorts: [], filters: [], group: null, hidden: [], order: [], frozen: [], facets: [], chart: null, widths: {},
};

export function readState() {
  const values = new URLSearchParams(location.hash.slice(1));
  const parts = Object.fromEntries(Object.entries(PARTS).map(([name, otherwise]) => [name, parsed(values.get(name), otherwise)]));
  const { sorts, ...others } = parts;
  return {
    ...others,
    sort: values.has("sorts") ? sorts : sortIn(values.get("sort") ?? new URLSearchParams(location.search).get("sort") ?? ""),
    row: Math.max(0, Number(values.get("row")) - 1) || 0,
    isExact: values.has("exact"),
  };
}

/** The address of a state; of this page, unless it is another one's. */
export function addressOf(state, page = location.pathname) {
  const values = new URLSearchParams();
  const parts = { ...state, sorts: state.sort };
  for (const name of Object.keys(PARTS)) if (parts[name] && Object.keys(parts[name]).length) values.set(name, JSON.stringify(parts[name]));
  if (state.row) values.set("row", String(state.row + 1));
  if (state.isExact) values.set("exact", "1");
  const hash = values.toString();
  return `${page}${hash ? `#${hash}` : ""}`;
}

function parsed(text, otherwise) {
  try {
    return JSON.parse(text) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function sortIn(text) {
  return text.split(",").filter(Boolean).map((name) => (name.startsWith("-") ? { field: name.slice(1), order: "desc" } : { field: name, order: "asc" }));
}

/** The columns of a result in the order that a person gave them: frozen ones first; the others stand behind, in their own. */
export function ordered(columns, { frozen, order: rest }) {
  const order = [...frozen, ...rest];
  const place = (column) => (order.includes(column.name) ? order.indexOf(column.name) : order.length);
  return [...columns].sort((one, other) => place(one) - place(other));
}
