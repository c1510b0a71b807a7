// What is said of a request that another server refuses. The table is given.
import assert from "node:assert/strict";
import { test } from "node:test";
import { all, client, given, ID } from "./checking.mjs";

const { DualClient, FetchError } = client;
const ROWS = Array.from({ length: 7 }, (_, id) => ({ id }));
const CALLS = {
  page: async (result) => (await result.page()).data,
  sort: async (result) => (await result.page({ sort: "id" })).data,
  cursor: async (result) => (await result.page({ cursor: "abc" })).data,
  rows: (result) => all(result.stream({ batchSize: 3 })),
  query: (result) => result.query({ aggregates: ["count"] }),
  sql: (result) => result.sql("SELECT 1"),
  profile: (result) => result.profile(),
  pin: (result) => result.pin(),
  unpin: (result) => result.unpin(),
  delete: (result) => result.delete(),
  refine: (result) => result.refine({}, { limit: 1 }),
  metadata: (result) => result.metadata(),
  file: (result) => result.download("csv"),
};

async function check(dual, { id, call, outcome, hint }, name) {
  const answer = CALLS[call](dual.open(id));
  if (outcome === "rows") return assert.deepEqual(await answer, ROWS, name);
  if (outcome === "false") return assert.equal(await answer, false, name);
  const error = await answer.then(() => undefined, (thrown) => thrown);
  assert.ok(error instanceof FetchError, name);
  assert.match(error.message, new RegExp(outcome), name);
  assert.match(error.hint, new RegExp(hint), name);
  assert.equal(error.isGone, id !== ID, name);
}

test("what the Python client says", async () => {
  assert.ok(given.length > 100);
  for (const each of given) await check(new DualClient({ baseUrl: each.base_url }), each, JSON.stringify(each));
});

test("the same of a client that knows what the server lacks, and of a list of results", async () => {
  for (const baseUrl of new Set(given.map(({ base_url }) => base_url))) {
    const dual = new DualClient({ baseUrl });
    await assert.rejects(all(dual.list()), { name: "FetchError", message: /has no list of results/, hint: /address/ });
    for (const each of given) if (each.base_url === baseUrl) await check(dual, each, JSON.stringify(each));
  }
});
