// What the programs here have in common.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

export const client = await import(process.env.DUALSQL_CLIENT);
export const given = JSON.parse(readFileSync(0, "utf8"));

/** Data in which each whole number is a text, as `tagged` of serving.py. Names are kept in order, and so is `__proto__`. */
export function tagged(value) {
  if (Array.isArray(value)) return value.map(tagged);
  if (typeof value === "object" && value !== null) return Object.entries(value).map(([name, item]) => [name, tagged(item)]);
  return typeof value === "bigint" || Number.isInteger(value) ? `int:${BigInt(value)}` : value;
}

export async function all(batches) {
  const rows = [];
  for await (const batch of batches) rows.push(...(batch.data ?? batch));
  return rows;
}

/** Run `body` with the origin of a server that answers as `handler` does. */
export async function withServer(handler, body) {
  const server = createServer(handler);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    return await body(`http://127.0.0.1:${server.address().port}`);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

export const ID = "q4T79hXv2ZkLwPmB7sYd1RcE0aKLOHLki";

/** A tool result whose rows are said to be at an address. */
export function toolResult(url, uri = `resource://${ID}`) {
  return {
    structuredContent: {
      results: [{ id: 0 }],
      resource: { uri, url, name: "Institutions" },
      metadata: {
        total_count: 3, total_count_kind: "exact", sample_count: 1,
        columns: [{ name: "id", type: "number" }], expires_at: "2999-01-01T00:00:00Z",
      },
    },
  };
}

export function json(response, status, body, headers = {}) {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}
