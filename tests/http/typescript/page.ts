// Reads a result with a client whose types were generated from /openapi.json: page.ts BASE_URL ID
import createClient from "openapi-fetch";
import type { components, paths } from "./dualsql.js";

declare const process: { argv: string[] };

type Schemas = components["schemas"];

const [baseUrl, id] = process.argv.slice(2) as [string, string];
const client = createClient<paths>({ baseUrl });
const path = { id };

async function read(cursor: string | null): Promise<Schemas["Page"]> {
  const body = cursor === null ? { limit: 7 } : { limit: 7, cursor };
  const { data, error } = await client.POST("/{id}", { params: { path }, body });
  // Without X-Response-Format the answer is always a page.
  if (data === undefined || !("next_cursor" in data)) throw new Error(JSON.stringify(error));
  return data;
}

async function allRows(): Promise<Schemas["Page"]["data"]> {
  const rows = [];
  let cursor: string | null = null;
  do {
    const page: Schemas["Page"] = await read(cursor);
    rows.push(...page.data);
    cursor = page.next_cursor;
  } while (cursor !== null);
  return rows;
}

async function columnNames(): Promise<string[]> {
  const { data } = await client.GET("/{id}", { params: { path } });
  // Text is a page for people, which is not asked for.
  if (typeof data !== "object" || !("columns" in data)) throw new Error("no metadata");
  return data.columns.map((column) => column.name);
}

async function codeOfUnknown(): Promise<string> {
  const { error } = await client.GET("/{id}", { params: { path: { id: "unknown" } } });
  if (typeof error !== "object" || !("code" in error)) throw new Error("no problem");
  const problem: Schemas["Problem"] = error;
  return problem.code;
}

const lines = await client.GET("/{id}/rows", {
  params: { path, query: { format: "ndjson" } },
  parseAs: "text",
});

console.log(
  JSON.stringify({
    rows: await allRows(),
    columns: await columnNames(),
    unknown: await codeOfUnknown(),
    lines: String(lines.data).trimEnd().split("\n").length,
  }),
);
