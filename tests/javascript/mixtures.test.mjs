// Is the same found in random values as by the Python client? Its findings are given.
import assert from "node:assert/strict";
import { test } from "node:test";
import { client, given } from "./checking.mjs";

const dual = new client.DualClient({ baseUrl: "http://127.0.0.1:1/resources" });

test("what the Python client finds in random values", () => {
  assert.ok(given.length >= 300);
  const others = given
    .map(({ value, found }) => {
      const ours = dual.find(value).map(({ uri, name, sample, totalCount, columns }) => [uri, name, sample.length, totalCount, columns.length]);
      return { value, found, ours };
    })
    .filter(({ found, ours }) => JSON.stringify(ours) !== JSON.stringify(found));
  const first = others.sort((one, other) => JSON.stringify(one.value).length - JSON.stringify(other.value).length).slice(0, 5);
  assert.equal(others.length, 0, `${others.length} differ: ${JSON.stringify(first)}`);
});
