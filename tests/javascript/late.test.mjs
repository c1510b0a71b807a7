// Pages that take longer than their server or the client allows, of a real server that keeps rows.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ID, all, client, given } from "./checking.mjs";

const { DualClient } = client;
const { baseUrl, late, early, unkept, rows, deferrals } = given;

test("the client waits for the rows of a page that is late, and reads it then", async () => {
  const found = new DualClient({ baseUrl }).open(late);
  const counts = (await all(found.pages({ sort: "-n", limit: 200 }))).map(({ n }) => n);
  assert.equal(counts.length, rows);
  assert.deepEqual(counts, counts.toSorted((one, two) => two - one));
  assert.equal((await found.metadata()).kept.kept, true);
});

test("its own time counts too, and questions are pages", async () => {
  const found = new DualClient({ baseUrl, timeout: 2_000 }).open(early);
  const { data } = await found.query({ aggregates: [{ function: "max", column: "n", as: "most" }] });
  assert.equal(data.length, 1);
});

test("rows that cannot be kept are an error", async () => {
  const found = new DualClient({ baseUrl: given.smallUrl }).open(unkept);
  await assert.rejects(found.page({ sort: "-n" }), { name: "FetchError", code: "RESOURCE_FAILED", message: /more than 10 rows/ });
});

for (const { name, url, isDeferred } of deferrals) {
  test(`it waits where the preference was applied: ${name}`, async () => {
    const found = new DualClient({ baseUrl: url, timeout: 30_000 }).open(ID);
    if (isDeferred) assert.deepEqual((await found.page()).data, [{ id: 1 }, { id: 2 }]);
    else await assert.rejects(found.page(), { name: "FetchError", message: /cannot be used/ });
  });
}
