// How fast does the JavaScript client read JSON whose numbers JSON.parse would round? node benchmarks/exact_json.mjs
// It needs node 22.18 or newer, which runs TypeScript as it is.
import { parseJSON } from "../client-js/src/json.ts";

function rows(id) {
  const row = (at) =>
    `{"id":${id(at)},"name":"University number ${at} of \\"x\\"","state":"NJ","pay":${at * 7.3},"debt":null,"seen":"2026-11-22T10:00:00.123456"}`;
  return `[${Array.from({ length: 20_000 }, (_, at) => row(at)).join(",")}]`;
}

/** The best of some runs, in megabytes of text a second. */
function speed(text, read) {
  const times = Array.from({ length: 9 }, () => {
    const began = performance.now();
    read(text);
    return performance.now() - began;
  });
  return Math.round(text.length / 1e3 / Math.min(...times));
}

const bySource = (_name, value, context) =>
  typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value;
const short = rows((at) => at);
const long = rows((at) => 2n ** 53n + 1n + BigInt(at));
console.table({
  "no long number": { "JSON.parse": speed(short, JSON.parse), parseJSON: speed(short, parseJSON) },
  "ids beyond 2^53": {
    "JSON.parse": speed(long, JSON.parse),
    parseJSON: speed(long, parseJSON),
    "reviver with context.source": speed(long, (text) => JSON.parse(text, bySource)),
  },
});
