// The JavaScript client as a command of `dualsql conformance --client`.
const { DualClient } = await import(process.env.DUALSQL_CLIENT);

let text = "";
for await (const piece of process.stdin) text += piece;
const { task, baseUrl, toolResult } = JSON.parse(text);
const result = new DualClient({ baseUrl, retry: { times: 0 } }).parse(toolResult);
const answer = result === null || result === undefined ? { none: true } : await fetched(result);
console.log(JSON.stringify(answer));

async function fetched(result) {
  const rows = [];
  try {
    for await (const page of result.pages({ limit: 5, ...(task === "sorted" ? { sort: "-score" } : {}) })) rows.push(...page.data);
    return { rows };
  } catch (error) {
    return { error: error.message };
  }
}
