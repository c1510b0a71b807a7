// What a tool answered, in the shapes that dualsql gives its answers.

// As IMPLIED_ENCODINGS in dualsql_client/wire.py: a column of an answer names its encoding only where its type implies another.
const IMPLIED = { string: "text", number: "integer", boolean: "boolean", date: "date" };

/** { resource, metadata, rows } of a dual response, or { words } of anything else. */
export function answerOf(result) {
  const structured = result?.structuredContent ?? {};
  const content = structured.data?.resource ? structured.data : structured;
  const link = result?.content?.find((block) => block.type === "resource_link" && block.uri?.startsWith("resource://"));
  const resource = content.resource?.uri ? content.resource : link && { uri: link.uri, name: link.name ?? link.uri };
  const metadata = content.metadata && { ...content.metadata, columns: content.metadata.columns?.map(withEncoding) };
  if (resource && !result.isError) return { resource, metadata, rows: rowsOf({ ...content, metadata }) };
  return { resource: null, metadata: undefined, rows: [], words: wordsOf(result, structured.error) };
}

function withEncoding(column) {
  return { encoding: IMPLIED[column.type] ?? "any", ...column };
}

function wordsOf(result, error) {
  if (error?.message) return [error.message, error.hint || error.details?.suggestion].filter(Boolean).join(" ");
  return (result?.content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("\n");
}

/** The sample as rows, whether it came so or by columns. */
function rowsOf({ results }) {
  return Array.isArray(results) ? results : byRow(results ?? {});
}

function byRow(results) {
  const names = Object.keys(results);
  return (results[names[0]] ?? []).map((_, index) => Object.fromEntries(names.map((name) => [name, results[name][index]])));
}

/** The sample as a page of rows. Columns that were left out of it are left out here. */
export function asPage({ rows, metadata }) {
  const names = rows.length ? Object.keys(rows[0]) : null;
  const described = metadata?.columns ?? (names ?? []).map((name) => ({ name, type: "string", encoding: "any" }));
  const columns = names ? described.filter((column) => names.includes(column.name)) : described;
  return { columns, data: rows, has_next: false, total_count: rows.length, total_count_kind: "exact", next_cursor: null, previous_cursor: null };
}
