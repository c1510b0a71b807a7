// The JavaScript client: all rows, sorted, page by page, and a request that is cancelled.
const { DualClient } = await import(process.env.DUALSQL_CLIENT);

let text = "";
for await (const piece of process.stdin) text += piece;
const { baseUrl, toolResult } = JSON.parse(text);
const result = new DualClient({ baseUrl }).parse(toolResult, { strict: true });
const ids = (rows) => rows.map((row) => row.id);
const pages = [];
for await (const page of result.pages({ limit: 400 })) pages.push(page.data.length);
const controller = new AbortController();
let cancelled = "";
try {
  for await (const page of result.pages({ limit: 10, signal: controller.signal })) if (page.data.length) controller.abort();
} catch (error) {
  cancelled = error.name;
}
const all = ids(await result.fetchAll());
const sorted = (await result.fetchAll({ sort: "-score" })).map((row) => row.score);
console.log(JSON.stringify({ all, sorted, pages, cancelled }));
