/**
 * A server of "Dual response over MCP and HTTP", version 1: the required part, over node:sqlite, with no other package.
 *
 *     node server.ts [PORT] [FILE]        # node 22.18 or newer; by default 3000, and rows in memory
 *     dualsql conformance http://127.0.0.1:3000/mcp
 */
import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { DatabaseSync } from "node:sqlite";

type Row = Record<string, unknown>;
type Values = Record<string, unknown>;
interface Resource { sql: string; count: number; columns: string[]; expiresAt: number }

const [port = "3000", file = ":memory:"] = process.argv.slice(2);
const origin = `http://127.0.0.1:${port}`;
const LIFETIME = 15 * 60, SAMPLE = 10, PAGE = 100, LARGEST_PAGE = 1000, MOST_RESOURCES = 10_000, MOST_BYTES = 64 * 1024;

/** An answer with a status of 400 or more, or the failure of a tool. */
class Refusal extends Error {
  readonly status: number;
  readonly word: string;
  constructor(status: number, word: string, message: string) {
    super(message);
    this.status = status;
    this.word = word;
  }
}

// The database.

const database = new DatabaseSync(file);
database.exec("CREATE TABLE IF NOT EXISTS standard_rows (id INTEGER PRIMARY KEY, name TEXT, kind TEXT, score INTEGER)");
const insert = database.prepare("INSERT OR IGNORE INTO standard_rows VALUES (?, ?, ?, ?)");
for (let id = 1; id <= 1000; id++) {
  insert.run(id, `row ${String(id).padStart(4, "0")}`, "abc"[id % 3]!, id % 5 ? (id * 7) % 10 : null);
}
database.exec("PRAGMA query_only = ON");

const resources = new Map<string, Resource>();

function create(sql: string, seconds: number): [string, Resource] {
  for (const [id, each] of resources) if (each.expiresAt < Date.now()) resources.delete(id);
  if (resources.size >= MOST_RESOURCES) throw new Refusal(503, "unavailable", "There are too many results.");
  const statement = database.prepare(`SELECT count(*) AS n FROM (${sql})`);
  const columns = database.prepare(sql).columns().map((column) => column.name);
  const resource = { sql, count: Number(statement.get()!["n"]), columns, expiresAt: Date.now() + seconds * 1000 };
  const id = randomBytes(24).toString("base64url");
  resources.set(id, resource);
  return [id, resource];
}

/** Rows of a result, one more than a page shows. The id completes every order, so no two rows tie. */
function rowsOf(resource: Resource, offset: number, limit: number, key?: { field: string; down: boolean }): Row[] {
  const order = key ? `"${key.field}" ${key.down ? "DESC" : "ASC"} NULLS LAST, id` : "id";
  return database.prepare(`SELECT * FROM (${resource.sql}) ORDER BY ${order} LIMIT ? OFFSET ?`).all(limit, offset) as Row[];
}

// The tool.

function standardRows({ rows = 23, lifetime = LIFETIME }: Values): Values {
  if (!isWhole(rows) || rows > 1000) throw new Refusal(400, "bad_request", "rows is a whole number from 0 to 1000.");
  if (typeof lifetime !== "number" || !(lifetime > 0 && lifetime <= LIFETIME)) {
    throw new Refusal(400, "bad_request", `lifetime is at most ${LIFETIME} seconds.`);
  }
  const [id, resource] = create(`SELECT * FROM standard_rows WHERE id <= ${rows}`, lifetime);
  const results = rowsOf(resource, 0, SAMPLE);
  const uri = `resource://${id}`;
  const text = `Rows: showing ${results.length} of ${resource.count}.\n${JSON.stringify(results)}\nThe application gets every row from ${uri}.`;
  return {
    content: [{ type: "text", text }],
    structuredContent: {
      results,
      resource: { uri, url: `${origin}/resources/${id}`, name: "Rows", mimeType: "application/json" },
      metadata: {
        total_count: resource.count,
        sample_count: results.length,
        executed_at: new Date().toISOString(),
        expires_at: new Date(resource.expiresAt).toISOString(),
      },
    },
    isError: false,
  };
}

const TOOL = {
  name: "standard_rows",
  description: "Rows of the standard. Answers with a few rows, the total, and a link that gives the application every row for 15 minutes.",
  inputSchema: { type: "object", properties: { rows: { type: "integer" }, lifetime: { type: "number" } }, additionalProperties: false },
};

/** The result of one method of MCP; undefined for a method that is not there. */
function answerMethod(method: string, params: Values): Values | undefined {
  switch (method) {
    case "initialize":
      return { protocolVersion: params["protocolVersion"], capabilities: { tools: {} }, serverInfo: { name: "standard", version: "1" } };
    case "tools/list":
      return { tools: [TOOL] };
    case "tools/call":
      if (params["name"] !== TOOL.name) return failed("There is no such tool.");
      try {
        return standardRows(known((params["arguments"] ?? {}) as Values, Object.keys(TOOL.inputSchema.properties)));
      } catch (error) {
        return failed(refusalOf(error).message);
      }
  }
  return undefined;
}

function failed(text: string): Values {
  return { content: [{ type: "text", text }], isError: true };
}

async function answerMCP(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method !== "POST") throw new Refusal(405, "method_not_allowed", "MCP takes POST.");
  const message = await bodyOf(request);
  const { id, method } = message;
  if (id === undefined) return void response.writeHead(202).end();
  const result = answerMethod(String(method), (message["params"] ?? {}) as Values);
  const error = { code: -32601, message: "There is no such method." };
  send(response, 200, { jsonrpc: "2.0", id, ...(result ? { result } : { error }) });
}

// Pages.

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** The values, if all their names are known: one that is ignored could repeat rows. */
function known(values: Values, names: string[]): Values {
  for (const name of Object.keys(values)) {
    if (!names.includes(name)) throw new Refusal(400, "bad_request", `Unknown name ${JSON.stringify(name)}. Known: ${names.join(", ")}.`);
  }
  return values;
}

function whole(values: Values, name: string, unset: number): number {
  const value = values[name] ?? unset;
  if (!isWhole(value)) throw new Refusal(400, "bad_request", `${name} is a whole number from 0 on.`);
  return value;
}

function keyOf(sort: unknown, resource: Resource): { field: string; down: boolean } | undefined {
  if (sort === undefined || sort === null) return undefined;
  const { field, order = "asc" } = (typeof sort === "object" ? sort : {}) as Values;
  if (typeof field !== "string" || !resource.columns.includes(field)) {
    throw new Refusal(422, "unprocessable", `A sort names one of the columns ${resource.columns.join(", ")}.`);
  }
  if (order !== "asc" && order !== "desc") throw new Refusal(400, "bad_request", 'order is "asc" or "desc".');
  return { field, down: order === "desc" };
}

function page(resource: Resource, values: Values, start: "offset" | "skip"): Values {
  const offset = whole(values, start, 0);
  const limit = Math.min(whole(values, "limit", PAGE), LARGEST_PAGE);
  const rows = rowsOf(resource, offset, limit + 1, keyOf(values["sort"], resource));
  const data = rows.slice(0, limit);
  return {
    data,
    returned_count: data.length,
    total_count: resource.count,
    [start]: offset,
    has_next: rows.length > limit,
    expires_at: new Date(resource.expiresAt).toISOString(),
  };
}

async function answerResource(id: string, query: URLSearchParams, request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (!["GET", "POST", "DELETE"].includes(request.method!)) {
    response.setHeader("Allow", "GET, POST, DELETE");
    throw new Refusal(405, "method_not_allowed", "A resource has GET, POST and DELETE.");
  }
  const resource = resources.get(id);
  if (!resource) throw new Refusal(404, "not_found", "There is no such resource.");
  if (resource.expiresAt < Date.now()) throw new Refusal(410, "expired", "The resource has expired. Call its tool again.");
  if (request.method === "DELETE") {
    resources.delete(id);
    return void response.writeHead(204).end();
  }
  if (request.method === "POST") return send(response, 200, page(resource, known(await bodyOf(request), ["offset", "limit", "sort"]), "offset"));
  const texts = Object.entries(known(Object.fromEntries(query), ["skip", "limit"]));
  const numbers = texts.map(([name, text]) => [name, /^\d+$/.test(String(text)) ? Number(text) : text]);
  send(response, 200, page(resource, Object.fromEntries(numbers) as Values, "skip"));
}

// HTTP.

async function bodyOf(request: IncomingMessage): Promise<Values> {
  let text = "";
  for await (const piece of request.setEncoding("utf8")) {
    text += piece;
    if (text.length > MOST_BYTES) throw new Refusal(413, "too_large", `A body has at most ${MOST_BYTES} characters.`);
  }
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = undefined;
  }
  if (typeof body !== "object" || body === null || Array.isArray(body)) throw new Refusal(400, "bad_request", "The body is no JSON object.");
  return body as Values;
}

function send(response: ServerResponse, status: number, body: Values): void {
  response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
}

/** What a caller is told of an error: nothing of the database's own words. */
function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  console.error(error);
  return new Refusal(500, "internal_error", "The server failed. Its log says why.");
}

const server = createServer(async (request, response) => {
  response.setHeader("Cache-Control", "no-store");
  try {
    const { pathname, searchParams } = new URL(request.url ?? "/", origin);
    // A page of another site cannot reach the server by a name that it lets resolve to this machine.
    if (request.headers.host !== new URL(origin).host) throw new Refusal(421, "misdirected", "This is another host.");
    const [, id] = /^\/resources\/([A-Za-z0-9_-]+)$/.exec(pathname) ?? [];
    if (pathname === "/mcp") await answerMCP(request, response);
    else if (id !== undefined) await answerResource(id, searchParams, request, response);
    else throw new Refusal(404, "not_found", "There is nothing here.");
  } catch (error) {
    const { status, word, message } = refusalOf(error);
    if (response.headersSent) response.destroy();
    else send(response, status, { error: word, message });
  }
});

server.listen(Number(port), "127.0.0.1", () => console.log(`MCP: ${origin}/mcp`));
