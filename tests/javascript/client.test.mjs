// The client and a real server of dualsql, whose rows are given; and servers that do wrong.
import assert from "node:assert/strict";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { all, client, given, ID, json, tagged, toolResult, withServer } from "./checking.mjs";

const { DualClient, DualError, FetchError } = client;
const { baseUrl, cutUrl, toolResult: made, rows, token } = given;
const dual = new DualClient({ baseUrl, token });
const parsed = dual.parse(made, { strict: true });
const QUICK = { first: 1, longest: 2 };

const same = (found, expected, name) => assert.equal(JSON.stringify(tagged(found)), JSON.stringify(expected), name);

test("every row, by each way to read them", async () => {
  same(await parsed.fetchAll(), rows);
  same(await all(parsed.stream()), rows);
  same(await all(parsed.pages({ limit: 300 })), rows);
  const batches = [];
  for await (const batch of parsed.stream({ batchSize: 300 })) batches.push(batch);
  assert.deepEqual(batches.map((batch) => batch.length), [300, 300, 100]);
  same(batches.flat(), rows);
});

test("pages by cursor have the order, the conditions and the total that were asked for", async () => {
  const pages = [];
  const filters = { column: "id", op: "le", value: 25 };
  for await (const page of parsed.pages({ limit: 10, sort: "-id", filters })) pages.push(page);
  assert.deepEqual(pages.map(({ data }) => data.length), [10, 10, 5]);
  assert.deepEqual(pages.flatMap(({ data }) => data.map(({ id }) => id)), Array.from({ length: 25 }, (_, at) => 25 - at));
  const page = await parsed.page({ limit: 5, offset: 7, sort: [{ field: "id", order: "desc" }] });
  assert.deepEqual([page.data[0].id, page.offset, page.hasNext, page.hasPrevious, page.totalCount], [rows.length - 7, 7, true, true, rows.length]);
  const next = await parsed.page({ cursor: page.nextCursor, limit: 5, sort: "-id" });
  assert.equal(next.data[0].id, rows.length - 12);
});

test("pages have the columns and the conditions that were asked for", async () => {
  const asked = { columns: ["price", "id"], filters: { column: "id", op: "le", value: 25 }, sort: "-id", limit: 10 };
  const pages = await all(parsed.pages(asked));
  assert.deepEqual(pages.map(({ id }) => id), Array.from({ length: 25 }, (_, at) => 25 - at));
  assert.deepEqual(Object.keys(pages[0]), ["price", "id"]);
  const second = await parsed.page({ ...asked, offset: 10 });
  assert.deepEqual([second.data, second.offset, second.hasNext], [pages.slice(10, 20), 10, true]);
  assert.deepEqual((await parsed.page({ ...asked, cursor: second.nextCursor })).data, pages.slice(20));
  assert.deepEqual((await parsed.page({ columns: "id", sort: "-ratio", limit: 1 })).columns.map(({ name }) => name), ["id"]);
  await assert.rejects(() => parsed.page({ columns: ["nothing"] }), { code: "UNKNOWN_COLUMN", message: /no column/ });
});

test("typed values: whole numbers are bigint, bytes are bytes, the rest stays", async () => {
  const [typed] = (await parsed.page({ limit: 1, typed: true })).data;
  assert.deepEqual([typed.id, typed.big, typed.ratio, typed.price], [1n, -9007199254740993n, 0.30000000000000004, "1.10"]);
  assert.deepEqual([...typed.body], [0, 255, 1]);
  const streamed = (await parsed.fetchAll({ typed: true, columns: ["big", "body"], limit: 1 }))[0];
  assert.deepEqual([streamed.big, streamed.body], [typed.big, typed.body]);
});

test("a bigint is a value to compare with", async () => {
  const page = await parsed.query({ filters: [{ column: "big", op: "eq", value: 9223372036854775807n }], columns: ["big"] }, { limit: 1 });
  assert.deepEqual(page.data, [{ big: 9223372036854775807n }]);
});

test("queries, SQL, refinements and profiles", async () => {
  const counted = await parsed.query({ group_by: ["ratio"], aggregates: [{ function: "count", as: "n" }] });
  assert.equal(counted.data.reduce((sum, { n }) => sum + n, 0), rows.length);
  const { data } = await parsed.sql("SELECT max(big) AS top FROM data WHERE id > :least", { least: 3 });
  assert.deepEqual(data, [{ top: 9223372036854775807n }]);
  const smaller = await parsed.refine({ filters: [{ column: "id", op: "lt", value: 4 }] }, { name: "Three" });
  assert.deepEqual([smaller.name, (await smaller.fetchAll()).length], ["Three", 3]);
  assert.ok((await parsed.profile("sample", { columns: ["id"] })).columns.length === 1);
  assert.equal(await smaller.delete(), true);
  assert.equal(await smaller.delete(), false);
  await assert.rejects(smaller.fetchAll(), { name: "FetchError", code: "RESOURCE_NOT_FOUND", status: 404, hint: /again/, requestId: /./ });
});

test("files", async () => {
  const csv = await parsed.download("csv", { columns: ["id", "big"], limit: 2 });
  assert.match(csv.filename, /\.csv$/);
  assert.equal(await (await csv.blob()).text(), "id,big\r\n1,-9007199254740993\r\n2,9223372036854775807\r\n");
  const formula = await parsed.refine({ sql: "SELECT '\ufeff=1' AS a FROM data LIMIT 1" }, { name: "A formula" });
  const cells = async (options) => (await (await formula.download("csv", options)).blob()).bytes();
  const text = (bytes) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  assert.equal(text(await cells({ guardFormulas: true })), "a\r\n\"'\ufeff=1\"\r\n");
  assert.equal(text(await cells({})), "a\r\n\"\ufeff=1\"\r\n");
  assert.equal(await formula.delete(), true);
  const lines = await (await (await parsed.download("ndjson")).blob()).text();
  assert.equal(lines.split("\n").length, rows.length + 1);
  assert.equal((await parsed.download("xlsx")).mediaType, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet");
  for (const format of ["json", "xlsx", "parquet", "arrow"]) {
    const file = await parsed.download(format, { columns: ["id"] });
    let size = 0;
    for await (const piece of file.body) size += piece.length;
    assert.ok(size > 100, format);
  }
});

test("the life of a resource", async () => {
  const found = dual.open(parsed.uri);
  const metadata = await found.metadata({ count: "exact" });
  assert.deepEqual([metadata.status, metadata.name, metadata.total_count, found.totalCount], ["ready", "Schools", rows.length, rows.length]);
  assert.ok(found.timeLeft() > 0 && !found.isExpired());
  assert.equal(await found.pin(), true);
  assert.equal(found.timeLeft(), null);
  assert.equal((await found.metadata()).status, "pinned");
  assert.equal(await found.unpin(), true);
  assert.ok(found.expiresAt instanceof Date);
  assert.equal((await found.waitUntilReady()).status, "ready");
  const listed = [];
  for await (const each of dual.list({ pageSize: 1 })) listed.push(each.uri);
  assert.ok(listed.includes(parsed.uri));
});

test("the server's refusals are errors with its words", async () => {
  const refused = { name: "FetchError", status: 422, code: "UNKNOWN_COLUMN", message: /nope/, hint: /./ };
  await assert.rejects(parsed.page({ sort: "nope" }), refused);
  await assert.rejects(parsed.fetchAll({ sort: "nope" }), { ...refused, requestId: /./ });
  await assert.rejects(new DualClient({ baseUrl, token: "wrong" }).parse(made).page(), { status: 401, code: "UNAUTHENTICATED" });
  assert.ok(new FetchError("x") instanceof DualError);
});

test("a stream that is cut anywhere is the unbroken one", async () => {
  const cut = new DualClient({ baseUrl: cutUrl, token, retry: QUICK }).parse(made);
  same(await cut.fetchAll(), rows);
  same(await all(cut.pages({ limit: 20 })), rows);
});

test("a long read keeps a sliding lifetime alive", async () => {
  let touches = 0;
  const inAWhile = () => new Date(Date.now() + 400).toISOString();
  let finish = () => {};
  const answer = (request, response) => {
    if (request.url.endsWith("/rows")) {
      response.writeHead(200, { "content-type": "application/x-ndjson" }).write('{"id":1}\n');
      finish = () => response.end(`${SUMMARY(1)}\n`);
      return;
    }
    if (++touches === 3) finish();
    json(response, 200, { data: [{ id: 1 }], has_next: false, expires_at: inAWhile() });
  };
  await withServer(answer, async (origin) => {
    const made = toolResult(undefined);
    made.structuredContent.metadata.expires_at = inAWhile();
    const sliding = new DualClient({ baseUrl: origin, timeout: 5_000, retry: { times: 0 } }).parse(made);
    assert.deepEqual(await sliding.fetchAll(), [{ id: 1 }]);
    assert.equal(touches, 3);
  });
});

test("whoever stops reading, or aborts, ends the request", async () => {
  for await (const batch of parsed.stream({ batchSize: 10 })) {
    assert.equal(batch.length, 10);
    break;
  }
  const controller = new AbortController();
  const reading = parsed.fetchAll({ signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(reading, /enough/);
  await assert.rejects(parsed.page({ signal: AbortSignal.abort() }), { name: "AbortError" });
});

test("rows are fetched from configured addresses, each with its own token", async () => {
  const asked = [];
  const answer = (request, response) => {
    asked.push([request.headers.host, request.url, request.headers.authorization]);
    json(response, 200, { data: [], has_next: false, columns: [] });
  };
  await withServer(answer, (one) => withServer(answer, async (two) => {
    const origins = { [`${one}/a`]: { token: "of-one" }, [`${two}/b/`]: { token: () => "of-two", headers: { "x-team": "data" } } };
    const several = new DualClient({ origins });
    await several.parse(toolResult(`${one}/a/${ID}`)).page();
    await several.parse(toolResult(`${two}/b/${ID}`)).page();
    const host = (url) => new URL(url).host;
    assert.deepEqual(asked, [[host(one), `/a/${ID}`, "Bearer of-one"], [host(two), `/b/${ID}`, "Bearer of-two"]]);
    for (const url of [`${one}/b/${ID}`, `${one}/a/../a/x/${ID}`, `http://user@${host(one)}/a/${ID}`, `${one}/a/${ID}?x`, "http://169.254.169.254/latest", "file:///etc/passwd", "no address"]) {
      await assert.rejects(several.parse(toolResult(url)).page(), { code: "UNTRUSTED_ORIGIN" }, url);
    }
    await assert.rejects(several.parse(toolResult("http://169.254.169.254/latest")).fetchAll(), { message: /link-local/ });
    await assert.rejects(several.parse(toolResult(undefined)).page(), { code: "NOT_CONFIGURED" });
    await assert.rejects(new DualClient().parse(toolResult(`${one}/a/${ID}`)).page(), { code: "NOT_CONFIGURED" });
    assert.equal(asked.length, 2);
    // With a main address, the id is looked for there, whatever the result says.
    await new DualClient({ baseUrl: `${one}/main`, origins }).parse(toolResult("http://evil.example/x")).page();
    assert.deepEqual(asked.pop(), [host(one), `/main/${ID}`, undefined]);
  }));
});

test("addresses that are none are refused", () => {
  for (const baseUrl of ["ftp://x", "nothing", "http://user:word@x/", "http://x/?a=1", "http://x/#a", "", "javascript:alert(1)"]) {
    assert.throws(() => new DualClient({ baseUrl }), { code: "NOT_CONFIGURED" }, baseUrl);
  }
});

test("no redirect is followed, and no token leaves with one", async () => {
  let visited = 0;
  await withServer(() => visited++, (target) => withServer((_, response) => response.writeHead(307, { location: `${target}/x` }).end(), async (origin) => {
    const redirected = new DualClient({ baseUrl: origin, token: "secret", retry: { times: 0 } }).parse(toolResult(undefined));
    for (const call of [() => redirected.page(), () => redirected.fetchAll(), () => redirected.pin(), () => redirected.download("csv")]) {
      await assert.rejects(call(), { code: "UNTRUSTED_ORIGIN" });
    }
    assert.equal(visited, 0);
  }));
});

test("a token is asked for once, again after a 401, and shared by calls", async () => {
  let valid = "one";
  let calls = 0;
  const answer = (request, response) =>
    request.headers.authorization === `Bearer ${valid}` ? json(response, 200, { data: [], has_next: false }) : json(response, 401, { code: "UNAUTHENTICATED" });
  await withServer(answer, async (origin) => {
    const result = new DualClient({ baseUrl: origin, token: async () => (calls++, valid) }).parse(toolResult(undefined));
    await Promise.all([result.page(), result.page(), result.page()]);
    assert.equal(calls, 1);
    valid = "two";
    await Promise.all([result.page(), result.page()]);
    assert.equal(calls, 2);
    for (const token of ["", "two words", "line\n", 5, null]) {
      await assert.rejects(new DualClient({ baseUrl: origin, token: () => token }).parse(toolResult(undefined)).page(), { code: "NOT_CONFIGURED" });
    }
  });
});

const SUMMARY = (rows) => JSON.stringify({ $summary: { rows, complete: true } });
const WRONG_STREAMS = {
  "no end record": ['{"id":1}\n{"id":2}\n', { code: "STREAM_BROKEN", details: { rows: 1 } }],
  "no line at all": ["", { code: "FETCH_ERROR", message: /too early/ }],
  "half an end record": ['{"id":1}\n{"$summary":{"rows":1', { code: "FETCH_ERROR", message: /too early/ }],
  "an end record without its line break": [`{"id":1}\n${SUMMARY(1)}`, { code: "FETCH_ERROR", message: /too early/ }],
  "another total": [`{"id":1}\n${SUMMARY(2)}\n`, { message: /another number of rows/ }],
  "an end that is not complete": ['{"id":1}\n{"$summary":{"rows":1,"complete":false}}\n', { code: "STREAM_BROKEN" }],
  "rows after the end": [`{"id":1}\n${SUMMARY(1)}\n{"id":2}\n`, { code: "STREAM_BROKEN" }],
  "a problem": ['{"id":1}\n{"$problem":{"code":"QUERY_TIMEOUT","message":"Too long.","hint":"Narrow it."}}\n', { code: "QUERY_TIMEOUT", message: "Too long.", hint: "Narrow it.", details: { rows: 1 } }],
  "two rows in a line": [`{"id":1},{"id":2}\n${SUMMARY(1)}\n`, { message: /not rows/ }],
  "half a row in a line": [`{"id":1\n}\n${SUMMARY(2)}\n`, { message: /not rows/ }],
  "no objects": [`[1]\n${SUMMARY(1)}\n`, { message: /not rows/ }],
  "bytes that are no text": [Buffer.concat([Buffer.from('{"id":"'), Buffer.from([0xff]), Buffer.from(`"}\n${SUMMARY(1)}\n`)]), { message: /not rows/ }],
};

for (const [name, [body, error]] of Object.entries(WRONG_STREAMS)) {
  test(`a stream with ${name} is an error`, async () => {
    const answer = (_, response) => response.writeHead(200, { "content-type": "application/x-ndjson" }).end(body);
    await withServer(answer, async (origin) => {
      const wrong = new DualClient({ baseUrl: origin, retry: { ...QUICK, times: 2 } }).parse(toolResult(undefined));
      await assert.rejects(wrong.fetchAll(), { name: "FetchError", ...error });
    });
  });
}

test("a file that is cut off is an error", async () => {
  const answer = (request, response) => {
    let body = "";
    request.on("data", (piece) => (body += piece)).on("end", () => {
      const { format } = JSON.parse(body);
      const types = { csv: "text/csv", parquet: "application/vnd.apache.parquet" };
      response.writeHead(200, { "content-type": types[format], "transfer-encoding": "chunked" });
      response.write("id\r\n1\r\n");
      if (format === "csv") setImmediate(() => response.destroy());
      else response.end();
    });
  };
  await withServer(answer, async (origin) => {
    const cut = new DualClient({ baseUrl: origin }).parse(toolResult(undefined));
    for (const format of ["csv", "parquet"]) {
      await assert.rejects(async () => (await cut.download(format)).blob(), { name: "FetchError" }, format);
    }
  });
});

test("answers are bounded in size and time", async () => {
  const rows = JSON.stringify({ data: [{ text: "x".repeat(50_000) }], has_next: false });
  const answer = (request, response) => {
    if (request.url.startsWith("/silent")) return;
    response.writeHead(200, { "content-type": request.url.endsWith("/rows") ? "application/x-ndjson" : "application/json" });
    response.end(rows);
  };
  await withServer(answer, async (origin) => {
    const small = (options) => new DualClient({ baseUrl: `${origin}/${options.path ?? ""}`, retry: { times: 0 }, ...options }).parse(toolResult(undefined));
    await assert.rejects(small({ maximumResponseBytes: 10_000 }).page(), { message: /larger than 10000/ });
    await assert.rejects(small({ maximumResponseBytes: 10_000 }).fetchAll(), { message: /larger than 10000/ });
    await assert.rejects(all(small({ maximumStreamBytes: 10_000 }).pages()), { message: /longer than 10000/ });
    await assert.rejects(small({ path: "silent", timeout: 50 }).page(), { code: "TIMEOUT" });
    await assert.rejects(small({ path: "silent", timeout: 50 }).fetchAll(), { code: "TIMEOUT" });
  });
});

test("pages that could lose or repeat rows are errors", async () => {
  const row = { id: 1 };
  const wrong = {
    "another offset": { data: [row], offset: 5, has_next: false },
    "another number": { data: [row], returned_count: 2, has_next: false },
    "a gap": { data: [row], has_next: true, next_offset: 9 },
    "no rows": { data: "none", has_next: false },
    "no word of more": { data: [row] },
    "a total that is none": { data: [row], has_next: false, total_count: "many" },
  };
  for (const [name, body] of Object.entries(wrong)) {
    await withServer((_, response) => json(response, 200, body), (origin) =>
      assert.rejects(new DualClient({ baseUrl: origin }).parse(toolResult(undefined)).page(), { message: /cannot be used/ }, name));
  }
  const circle = { data: [row], offset: 0, has_next: true, order: "total", next_cursor: "same" };
  await withServer((_, response) => json(response, 200, circle), (origin) =>
    assert.rejects(all(new DualClient({ baseUrl: origin }).parse(toolResult(undefined)).pages()), { message: /repeatedly/ }));
});

test("an option that a method does not have is refused: it would be ignored", async () => {
  const calls = [
    () => parsed.page({ where: [] }), () => all(parsed.pages({ where: [] })), () => all(parsed.stream({ filters: [] })),
    () => parsed.fetchAll({ where: [] }), () => parsed.download("csv", { typed: true }),
    () => parsed.query({}, { sort: "id" }), () => parsed.sql("SELECT 1", {}, { sort: "id" }), () => parsed.refine({}, { title: "A" }),
    () => parsed.profile("full", { where: [] }), () => parsed.metadata({ total: true }), () => parsed.pin({ until: 1 }),
  ];
  for (const call of calls) await assert.rejects(call, { name: "TypeError", message: /has no option ".+"\. It has: signal/ });
  await assert.rejects(() => parsed.page(null), { name: "TypeError", message: "The options of page() are no object." });
});

const SCHOOLS = Array.from({ length: 7 }, (_, id) => ({ id, name: `School ${id}` }));

/** Pages by GET alone, as the reference design has them. */
function byGetAlone(requests, { refusal = 405 } = {}) {
  return (request, response) => {
    const url = new URL(request.url, "http://x");
    requests.push([request.method, url.search]);
    if (request.method !== "GET") {
      response.writeHead(refusal, { "content-type": "text/html" }).end("<pre>Cannot POST</pre>");
      return;
    }
    const start = Number(url.searchParams.get("skip"));
    const data = SCHOOLS.slice(start, start + Number(url.searchParams.get("limit") ?? 7));
    json(response, 200, { data, skip: start, has_next: start + data.length < 7, has_prev: start > 0, total_count: 7 });
  };
}

test("every row of a server with pages only is read, by GET or by POST", async () => {
  for (const refusal of [405, 404, 501]) {
    const requests = [];
    await withServer(byGetAlone(requests, { refusal }), async (origin) => {
      const result = new DualClient({ baseUrl: origin }).parse(toolResult(undefined));
      assert.deepEqual(await all(result.stream({ batchSize: 3 })), SCHOOLS);
      assert.deepEqual(requests.filter(([method]) => method === "GET").map(([, query]) => query),
        [0, 3, 6].map((at) => `?skip=${at}&limit=3`));
      assert.deepEqual(await result.fetchAll({ columns: ["name"], limit: 2 }), SCHOOLS.slice(0, 2).map(({ name }) => ({ name })));
      assert.deepEqual(await result.fetchAll({ columns: "name, id", limit: 1 }), [{ name: "School 0", id: 0 }]);
      assert.deepEqual(await all(result.pages({ limit: 2 })), SCHOOLS);
      const page = await result.page({ offset: 5 });
      assert.deepEqual([page.data.length, page.hasNext, page.hasPrevious, page.totalCount, page.order], [2, false, true, 7, null]);
      for (const options of [{ sort: "id" }, { cursor: "abc" }]) await assert.rejects(result.page(options), { message: /takes no POST/ });
      for (const call of [() => result.pin(), () => result.delete(), () => result.sql("SELECT 1")]) {
        await assert.rejects(call, { message: /pages by GET and nothing else/, hint: /page, fetchAll or stream/ });
      }
      await assert.rejects(result.metadata(), { message: /sends rows where metadata/ });
      await assert.rejects(result.fetchAll({ textColumns: ["id"] }), { message: /no textColumns/ });
      await assert.rejects(result.fetchAll({ columns: ["id", "price"] }), { message: /no column "price"/, hint: /id, name/ });
    });
  }
  const bodies = [];
  const byPost = async (request, response) => {
    if (request.method !== "POST" || request.url !== `/${ID}`) return response.writeHead(404).end("nothing");
    const body = JSON.parse(await text(request));
    bodies.push(body);
    const data = SCHOOLS.slice(body.offset, body.offset + body.limit);
    return json(response, 200, { data, has_next: body.offset + data.length < 7, offset: body.offset });
  };
  await withServer(byPost, async (origin) => {
    const result = new DualClient({ baseUrl: origin }).parse(toolResult(undefined));
    assert.deepEqual(await result.fetchAll({ sort: "-id" }), SCHOOLS);
    assert.deepEqual(bodies, [{ offset: 0, limit: 500, sort: { field: "id", order: "desc" } }]);
  });
});

test("a server whose answer to GET may be another page repeats no row", async () => {
  const first = (request, response) => (request.method === "GET" ? json(response, 200, { data: SCHOOLS.slice(0, 3), has_next: true }) : response.writeHead(405).end());
  await withServer(first, (origin) =>
    assert.rejects(all(new DualClient({ baseUrl: origin }).parse(toolResult(undefined)).stream({ batchSize: 3 })), { message: /which rows/ }));
});

test("what a server does not confirm is an error", async () => {
  const page = { data: SCHOOLS, offset: 0, has_next: false };
  await withServer((_, response) => json(response, 200, page), async (origin) => {
    const result = new DualClient({ baseUrl: origin }).parse(toolResult(undefined));
    const unconfirmed = {
      "several sort keys": result.page({ sort: "id,-name" }),
      "a cursor": result.page({ cursor: "abc" }),
      filters: all(result.pages({ filters: { column: "id", op: "eq", value: 1 } })),
      aggregates: result.query({ aggregates: ["count"] }),
      "the SQL text": result.sql("SELECT 1"),
    };
    for (const [part, answer] of Object.entries(unconfirmed)) {
      await assert.rejects(answer, { name: "FetchError", message: new RegExp(`does not confirm ${part}:`) }, part);
    }
    assert.equal((await result.page({ sort: "-id" })).order, null);
  });
});

const MEMBERS = ["constructor", "toString", "__proto__", { toString: null, valueOf: null }];

test("a server's word that every object knows is a word like any other", async () => {
  for (const word of MEMBERS) {
    const described = [{ name: "id", type: word, encoding: word }, { name: "list", type: "string", encoding: "array", items: word }];
    const shown = [{ name: "id", type: "string", encoding: "any" }, { name: "list", type: "string", encoding: "array", items: "any" }];
    const answer = (_, response) => json(response, 200, { data: [{ id: 1, list: [1] }], has_next: false, columns: described });
    await withServer(answer, async (origin) => {
      const made = toolResult(undefined);
      made.structuredContent.metadata.columns = described;
      const wordy = new DualClient({ baseUrl: origin }).parse(made);
      assert.deepEqual(wordy.columns.map(({ type }) => type), ["string", "string"]);
      assert.deepEqual((await wordy.page({ typed: true })).columns, shown);
    });
  }
});

test("a row without a column that has the name of a member is read as it is", async () => {
  const columns = MEMBERS.slice(0, 3).map((name) => ({ name, type: "number", encoding: "integer" }));
  const answer = (_, response) => response.writeHead(200, { "content-type": "application/x-ndjson" }).end(`{"id":1}\n{"toString":2}\n${SUMMARY(2)}\n`);
  await withServer(answer, async (origin) => {
    const made = toolResult(undefined);
    made.structuredContent.metadata.columns = [{ name: "id", type: "number" }, ...columns];
    const [one, two] = await new DualClient({ baseUrl: origin }).parse(made).fetchAll({ typed: true });
    assert.deepEqual([Object.entries(one), Object.entries(two)], [[["id", 1n]], [["toString", 2n]]]);
  });
});

test("what a server says of a broken stream is no hint unless it is known", async () => {
  const answer = (word) => (_, response) => {
    response.writeHead(200, { "content-type": "application/x-ndjson", "dualsql-no-resume": word }).end('{"id":1}\n{"id":2}\n');
  };
  for (const [word, hint] of [["NO_TOTAL_ORDER", /ORDER BY/], ["constructor", /^Begin again\.$/], ["", /^Begin again\.$/]]) {
    await withServer(answer(word), (origin) =>
      assert.rejects(new DualClient({ baseUrl: origin }).parse(toolResult(undefined)).fetchAll(), { code: "STREAM_BROKEN", hint }, word));
  }
});

test("a description whose uri or name is no text is an error of the client", async () => {
  const right = { status: "ready", name: "Schools", uri: `resource://${ID}`, columns: [] };
  for (const [wrong, code] of [[{ uri: 5 }, "FETCH_ERROR"], [{ name: {} }, "FETCH_ERROR"], [{ uri: null }, "FETCH_ERROR"], [{ uri: undefined }, "PARSE_ERROR"]]) {
    const answer = (request, response) => json(response, 200, request.url === "/?limit=100" ? { resources: [{ ...right, ...wrong }] } : { ...right, ...wrong });
    await withServer(answer, (origin) => assert.rejects(all(new DualClient({ baseUrl: origin }).list()), { code }, JSON.stringify(wrong)));
  }
});

test("requests that read are sent again when they break or the server is busy; those that do something are not", async () => {
  let requests = 0;
  const answer = (request, response) => {
    requests++;
    if (requests === 1) json(response, 200, { data: [{ id: 1 }], has_next: true, next_offset: 1 });
    else if (requests % 2 === 0) request.socket.destroy();
    else if (request.url.endsWith("/rows") && requests < 10) json(response, 503, { code: "TOO_MANY_QUERIES" }, { "retry-after": "0" });
    else if (request.url.endsWith("/rows")) response.writeHead(200, { "content-type": "application/x-ndjson" }).end(`{"id":1}\n${SUMMARY(1)}\n`);
    else if (request.method === "POST") json(response, 200, { data: [{ id: 1 }], offset: 0, has_next: false });
    else json(response, 200, { status: "pinned", expires_at: null });
  };
  await withServer(answer, async (origin) => {
    const busy = new DualClient({ baseUrl: origin, retry: QUICK }).parse(toolResult(undefined));
    await busy.page();
    assert.deepEqual((await busy.page()).data, [{ id: 1 }]);
    assert.equal(requests, 3);
    await busy.pin();
    assert.deepEqual(await busy.fetchAll(), [{ id: 1 }]);
    const before = requests;
    if (before % 2 === 0) await busy.page();
    const odd = requests;
    await assert.rejects(busy.refine({}), { code: "FETCH_ERROR", mayPass: true });
    assert.equal(requests, odd + 1);
  });
  await withServer(() => {}, (origin) => Promise.resolve(origin)).then((gone) =>
    assert.rejects(new DualClient({ baseUrl: gone }).parse(toolResult(undefined)).page(), { code: "FETCH_ERROR", mayPass: false }));
});

test("a refresh ends when the metadata say so", async () => {
  await assert.rejects(dual.open(parsed.uri).refresh(), { name: "FetchError", status: 400, code: "BAD_PARAMETER" }); // no storage
  const metadata = { status: "ready", name: "x", uri: "u", total_count: 9, total_count_kind: "exact", columns: [], created_at: null, expires_at: null,
    access_count: 0, last_accessed_at: null, metadata: {} };
  const said = [{ rows_so_far: 0 }, { rows_so_far: 5 }, { rows: 9 }];
  const asked = [];
  const answer = (request, response) => {
    asked.push(`${request.method} ${request.url.endsWith("/refresh")}`);
    json(response, 200, { ...metadata, kept: { kept: true, ...(said.length > 1 ? said.shift() : said[0]) } });
  };
  await withServer(answer, async (origin) => {
    const found = new DualClient({ baseUrl: origin }).parse(toolResult(undefined));
    assert.equal((await found.refresh()).kept.rows, 9);
    assert.deepEqual([asked, found.totalCount], [["POST true", "GET false", "GET false"], 9]);
    said[0] = { error: { code: "QUERY_TIMEOUT", message: "It took too long.", hint: "", details: {} } };
    await assert.rejects(found.refresh(), { code: "RESOURCE_FAILED", message: /too long/ });
  });
});

const LINES = { "content-type": "application/x-ndjson", "dualsql-resume": "token" };
const oneRow = (_, response) => response.writeHead(200, LINES).end('{"id":1}\n{"id":2}\n');
const busyForEver = (_, response) => json(response, 503, { code: "DATABASE_BUSY", message: "No." }, { "retry-after": "0" });
const drip = (piece) => (_, response) => {
  response.writeHead(200, LINES);
  const timer = setInterval(() => response.write(piece), 10);
  response.on("close", () => clearInterval(timer));
};
let cursors = 0;
const endlessPages = (total) => (request, response) =>
  json(response, 200, { data: [{ id: 1 }], offset: 0, has_next: true, order: "total", total_count: total, next_cursor: String(cursors++) });
const FEW = { times: 5, first: 0 };
const SHORT = { budget: 300, first: 1 };
const ENDLESS = {
  "one row then a break": [oneRow, (result) => result.fetchAll(), FEW],
  "no summary": [(_, response) => response.writeHead(200, LINES).end('{"id":1}\n'.repeat(50)), (result) => result.fetchAll(), FEW],
  "503": [busyForEver, (result) => result.fetchAll(), FEW],
  "503 within the time": [busyForEver, (result) => result.fetchAll(), SHORT],
  "503 of pages": [busyForEver, (result) => all(result.pages()), FEW],
  "blanks that drip": [drip(" "), (result) => result.fetchAll(), SHORT],
  "rows that drip": [drip('{"id":1}\n'), (result) => result.fetchAll(), { total: 300 }],
  "a file that drips": [drip("x"), async (result) => (await result.download("ndjson")).blob(), { total: 300 }],
  "pages behind the total": [endlessPages(3), (result) => all(result.pages()), FEW],
  "pages without a total": [endlessPages(null), (result) => all(result.pages()), { total: 300 }],
};

for (const [name, [answer, read, retry]] of Object.entries(ENDLESS)) {
  test(`a server that never ends is given up: ${name}`, { timeout: 5_000 }, async () => {
    let requests = 0;
    const counting = (request, response) => (requests++, answer(request, response));
    await withServer(counting, async (origin) => {
      const result = new DualClient({ baseUrl: origin, retry }).parse(toolResult(undefined));
      await assert.rejects(read(result), (error) => {
        assert.equal(error.name, "FetchError");
        assert.match(error.message, /Given up after \d+ rows/);
        assert.ok(["rows", "bytes", "attempts", "milliseconds"].every((key) => Number.isFinite(error.details[key])));
        return true;
      });
      if (retry === FEW) assert.ok(requests <= 10, `${requests} requests`);
    });
  });
}

test("a server that asks for more time than the budget has is given up at once", { timeout: 5_000 }, async () => {
  for (const asked of ["200", "1000000000", "9".repeat(400)]) {
    let requests = 0;
    const answer = (_, response) => (requests++, response.writeHead(503, { "retry-after": asked }).end());
    await withServer(answer, (origin) =>
      assert.rejects(new DualClient({ baseUrl: origin, retry: { ...FEW, budget: 9_000 } }).parse(toolResult(undefined)).fetchAll(), {
        name: "FetchError",
      }));
    assert.equal(requests, 1, asked);
  }
});

test("a listing that never ends is given up", { timeout: 5_000 }, async () => {
  const answer = (_, response) => json(response, 200, { resources: [], next_cursor: String(cursors++) });
  await withServer(answer, (origin) =>
    assert.rejects(all(new DualClient({ baseUrl: origin, retry: FEW }).list()), { message: /Given up after 0 rows/ }));
});

test("what is no limit is refused where it is written", () => {
  for (const retry of [{ budget: "3" }, { times: -1 }, { total: NaN }, { seconds: 3 }]) {
    assert.throws(() => new DualClient({ retry }), { name: "NotConfiguredError" });
  }
});
