// What the reference client finds in a tool result and in the outputs of OpenAI's Agents SDK, and the rows that it fetches.
import { readFileSync } from "node:fs";
import { DualResponseClient, extractToolOutputs } from "./reference.mjs";

const { toolResult, outputs } = JSON.parse(readFileSync(0, "utf8"));
const client = new DualResponseClient();
const items = outputs.map((output) => ({ type: "tool_call_output_item", rawItem: { name: "search", output } }));
const ofOutputs = extractToolOutputs({ state: { _generatedItems: items } }).map(({ output }) => client.parse(output));
const parsed = client.parse(toolResult);
const rows = client.isDualResponse(toolResult) ? await client.fetchAll(parsed.resourceUrl, { batchSize: 7 }) : null;
console.log(JSON.stringify({ parsed, ofOutputs, rows }));
