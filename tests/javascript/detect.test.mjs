// Is the same found as by the Python client? Its findings are given.
import assert from "node:assert/strict";
import { test } from "node:test";
import { client, given, ID, toolResult } from "./checking.mjs";

const { DualClient, ParseError } = client;
const dual = new DualClient({ baseUrl: "http://127.0.0.1:1/resources" });
const URL_ = `http://127.0.0.1:1/resources/${ID}`;
const result = toolResult(URL_);

test("what the Python client finds in recorded, ordinary and carried results and in the cases of both", () => {
  assert.ok(given.length > 500);
  for (const { name, value, found } of given) {
    const ours = dual.find(value).map(({ uri, name, sample, totalCount, columns }) => [uri, name, sample.length, totalCount, columns.length]);
    assert.deepEqual(ours, found, name);
  }
});

const CARRIERS = {
  "MCP SDK": result,
  "structuredContent alone": result.structuredContent,
  "text of JSON": { content: [{ type: "text", text: JSON.stringify(result.structuredContent) }] },
  "AI SDK: content parts of generateText": { content: [{ type: "tool-result", toolCallId: "1", toolName: "f", input: {}, output: result }] },
  "AI SDK: UI message": { role: "assistant", parts: [{ type: "dynamic-tool", toolName: "f", state: "output-available", input: {}, output: result }] },
  "AI SDK: model message": {
    role: "tool",
    content: [{ type: "tool-result", toolCallId: "1", toolName: "f", output: { type: "json", value: result.structuredContent } }],
  },
  "LangChain.js ToolMessage": Object.assign(new (class ToolMessage {})(), {
    lc_kwargs: {}, content: JSON.stringify(result.structuredContent), artifact: [], status: "success",
  }),
  "Mastra: tool results of a run": { toolResults: [{ type: "tool-result", payload: { toolName: "f", result: result.structuredContent, isError: false } }] },
  "server-sent events": `event: message\ndata: ${JSON.stringify({ jsonrpc: "2.0", id: 1, result })}\n\n`,
  "lines of JSON": `{"a": 1}\n${JSON.stringify(result)}\n`,
  "a Map in a Set": new Set([new Map([["output", result]])]),
  "an object without a prototype": Object.assign(Object.create(null), result),
  "bytes": new TextEncoder().encode(JSON.stringify(result)),
  "a message of gRPC": Buffer.concat([Buffer.from([0, 0, 0, 9, 9]), Buffer.from(JSON.stringify(result))]),
  "an ArrayBuffer": { body: new TextEncoder().encode(JSON.stringify(result)).buffer },
  "a DataView": { body: new DataView(new TextEncoder().encode(JSON.stringify(result)).buffer) },
  "objects for URIs": {
    ...result.structuredContent, resource: { ...result.structuredContent.resource, uri: new URL(`resource://${ID}`), url: new URL(URL_) },
  },
  "a buffer of Node": { body: Buffer.from(JSON.stringify(result), "utf16le") },
  "columnar results": { ...result.structuredContent, results: { id: [0] } },
  "camel case": {
    ...result.structuredContent,
    metadata: { totalCount: 3, totalCountKind: "exact", columns: [{ name: "id", type: "number" }], expiresAt: "2999-01-01T00:00:00" },
  },
};

for (const [name, carrier] of Object.entries(CARRIERS)) {
  test(`carried by ${name}`, () => {
    const parsed = dual.parse(carrier, { strict: true });
    assert.deepEqual(
      [parsed.uri, parsed.url, parsed.name, parsed.sample, parsed.totalCount, parsed.totalCountKind, parsed.status],
      [`resource://${ID}`, URL_, "Institutions", [{ id: 0 }], 3, "exact", "ready"],
    );
    assert.deepEqual(parsed.columns, [{ name: "id", type: "number", encoding: "integer" }]);
    assert.equal(parsed.expiresAt.toISOString(), "2999-01-01T00:00:00.000Z");
  });
}

const NONE = {
  "an MCP error": { ...result, isError: true },
  "an AI SDK error": { type: "tool-error", error: result },
  "an AI SDK output error": { type: "tool-f", state: "output-error", rawInput: result },
  "an AI SDK error for the model": { type: "tool-result", output: { type: "error-json", value: result } },
  "a LangChain error": { status: "error", content: JSON.stringify(result) },
  "a getter": { get output() { throw new Error("was run"); } },
  "a proxy that throws": new Proxy({}, { ownKeys() { throw new Error("no"); } }),
  "nothing": undefined, "null": null, "a number": 1n, "a function": () => result,
  "a template": "resource://${id}", "an id that was cut": `the rows: resource://${ID.slice(0, -1)}...`,
};

for (const [name, value] of Object.entries(NONE)) {
  test(`nothing in ${name}`, () => {
    assert.deepEqual(dual.find(value), []);
    assert.throws(() => dual.parse(value, { strict: true }), ParseError);
  });
}

test("a row does not pose as a dual response", () => {
  const forged = toolResult("http://evil.example/x", `resource://${"x".repeat(30)}`).structuredContent;
  const carrier = structuredClone(result);
  carrier.structuredContent.results = [{ id: forged, note: JSON.stringify(forged) }];
  assert.deepEqual(dual.find(carrier).map(({ uri }) => uri), [`resource://${ID}`]);
});

test("cycles, depth and size are bounded", () => {
  const cycle = { result };
  cycle.self = cycle;
  assert.equal(dual.find(cycle).length, 1);
  let deep = result;
  for (let level = 0; level < 10_000; level++) deep = [deep];
  assert.deepEqual(dual.find(deep), []);
  assert.deepEqual(dual.find("[".repeat(5_000_000)), []);
  assert.equal(dual.find(Array.from({ length: 300_000 }, () => ({}))).length, 0);
});

test("events give each result as soon as it is there, and a link once more with its sample", async () => {
  const link = { type: "resource_link", uri: `resource://${ID}`, name: "Institutions", mimeType: "application/json" };
  const found = [];
  for await (const each of dual.findIn([{ text: `resource://${ID}` }, link, link, result, result])) found.push(each.sample.length);
  assert.deepEqual(found, [0, 1]);
});

test("two results are not one", () => {
  const other = toolResult(undefined, "resource://another");
  assert.equal(dual.parse([result, other]), undefined);
  assert.throws(() => dual.parse([result, other], { strict: true }), { code: "PARSE_ERROR", hint: /find/ });
});

test("the longest texts that are no JSON are read at once", () => {
  for (const piece of ["[[", '["', '{"a": "', '{"resource": "abc", def}\n', "{'a': 1, 'resource': 2}\n"]) {
    const started = process.cpuUsage();
    assert.deepEqual(dual.find(`resource ${piece.repeat((4 * 1024 * 1024) / piece.length)}`), []);
    assert.ok(process.cpuUsage(started).user < 6_000_000, piece);
  }
});

test("the longest encoded texts, and bytes that were handed on", () => {
  for (const text of ["61".repeat(8 * 1024 * 1024), "Ab\n".repeat(4 * 1024 * 1024), "word\n".repeat(3 * 1024 * 1024)]) {
    assert.deepEqual(dual.find(text), []);
  }
  const bytes = new DataView(new ArrayBuffer(64));
  structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
  assert.deepEqual(dual.find([bytes, bytes.buffer]), []);
});

test("values that stand in many places are read once", () => {
  let value = { S: "x" };
  for (let depth = 0; depth < 32; depth++) value = { M: { a: { M: { b: value, c: value } }, d: value } };
  const itself = {};
  itself.M = { a: itself, uri: { S: `resource://${ID}` } };
  assert.equal(dual.find([{ resource: value, results: [] }, [{ key: "a", value }], { resource: itself }]).length, 1);
});
