// Numbers keep their digits, and everything else is read as JSON.parse reads it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { client } from "./checking.mjs";

const { parseJSON } = client;

const NUMBERS = [
  ["9007199254740991", 9007199254740991], ["9007199254740992", 9007199254740992n], ["-9007199254740993", -9007199254740993n],
  ["18446744073709551617", 18446744073709551617n], ["1".repeat(5_000), BigInt("1".repeat(5_000))],
  ["12345678901234567", 12345678901234567n], ["0.1", 0.1], ["0.30000000000000004", 0.30000000000000004],
  ["12345.678901234567", 12345.678901234567], ["0.00012345678901234567", 0.00012345678901234567],
  ["5e-324", 5e-324], ["1.7976931348623157e+308", 1.7976931348623157e308], ["-0", -0], ["-0.0", -0], ["1E3", 1000],
  ["1.50", 1.5], ["100000.00000000000000000000", 100000],
  // What no number holds stays as it was written.
  ["0.1234567890123456789", "0.1234567890123456789"], ["12345678901234567890.5", "12345678901234567890.5"],
  ["1e400", "1e400"], ["-1e400", "-1e400"], ["1e-400", "1e-400"], ["0e-400", 0],
];

for (const [written, value] of NUMBERS) {
  test(`the number ${written.slice(0, 40)}`, () => {
    for (const text of [written, ` ${written}\n`, `[${written}]`, `{"a":${written}}`, `[1, ${written} ,2]`, `[9007199254740993,${written}]`]) {
      const read = parseJSON(text);
      const found = typeof read !== "object" ? read : Array.isArray(read) ? (read.length === 1 ? read[0] : read[1]) : read.a;
      assert.ok(Object.is(found, value), `${text.slice(0, 60)} is ${String(found).slice(0, 60)}`);
    }
  });
}

/** Deterministic random numbers (mulberry32). */
function randomness(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const PIECES = ['"', "\\", "\\u0041", "\\ud834\\udd1e", "é", "\u2028", "[", "]", "{", "}", ",", ":", " ", "\n", "null", "true", "1", "-", ".5", "e9", "a", "\u0000", '"k":', "\\\\"];

test("random texts are accepted, refused and read as JSON.parse does", () => {
  const random = randomness(7);
  let accepted = 0;
  for (let round = 0; round < 30_000; round++) {
    const length = 1 + Math.floor(random() * 7);
    const inner = Array.from({ length }, () => PIECES[Math.floor(random() * PIECES.length)]).join("");
    for (const text of [`[${inner},9007199254740993]`, `["${inner}",9007199254740993]`]) {
      const outcome = (parse) => {
        try {
          return parse(text);
        } catch (error) {
          assert.ok(error instanceof SyntaxError, String(error));
          return "refused";
        }
      };
      const theirs = outcome(JSON.parse);
      const ours = outcome(parseJSON);
      if (theirs === "refused") assert.equal(ours, "refused", text);
      else {
        accepted++;
        assert.equal(ours.pop(), 9007199254740993n);
        theirs.pop();
        assert.deepEqual(ours, theirs, text);
      }
    }
  }
  assert.ok(accepted > 3_000, String(accepted));
});

test("__proto__ is a field like any other", () => {
  const read = parseJSON('{"__proto__":{"polluted":9007199254740993}}');
  assert.equal({}.polluted, undefined);
  assert.equal(Object.getPrototypeOf(read), Object.prototype);
  assert.deepEqual(Object.keys(read), ["__proto__"]);
});

test("a whole number is read at once, whatever its length, or refused", () => {
  assert.equal(parseJSON("9".repeat(131_072)), BigInt("9".repeat(131_072)));
  const started = performance.now();
  for (const written of ["9".repeat(5_000_000), `[{"x":-${"9".repeat(300_000)}}]`]) {
    assert.throws(() => parseJSON(written), RangeError);
  }
  assert.ok(performance.now() - started < 1_000);
});
