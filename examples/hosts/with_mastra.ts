/**
 * A host on Mastra: what a run returns is handed to the client. Run it beside server.py: node with_mastra.ts
 *
 * npm install @mastra/core@1 @mastra/mcp@2 dualsql-client
 */
import { Agent, type AgentConfig } from "@mastra/core/agent";
import { MCPClient } from "@mastra/mcp";
import { DualClient } from "dualsql-client";

const origin = "http://127.0.0.1:8000";

/** In place of yours, `model: "openai/gpt-..."`: it asks for colleges, and then says that it did. */
function scriptedModel(): AgentConfig["model"] {
  const rest = { usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 }, warnings: [] };
  const input = JSON.stringify({ state: "NJ" });
  const script = [
    {
      content: [{ type: "tool-call", toolCallId: "1", toolName: "colleges_search_colleges", input }],
      finishReason: "tool-calls",
      ...rest,
    },
    { content: [{ type: "text", text: "Here are colleges of New Jersey." }], finishReason: "stop", ...rest },
  ];
  return {
    specificationVersion: "v2",
    provider: "scripted",
    modelId: "scripted",
    supportedUrls: {},
    doGenerate: async () => script.shift(),
    doStream: () => Promise.reject(new Error("The script is not streamed.")),
  } as unknown as AgentConfig["model"];
}

const servers = new MCPClient({ servers: { colleges: { url: new URL(`${origin}/mcp`), connectTimeout: 30_000 } } });
try {
  const tools = await servers.listTools();
  const agent = new Agent({ id: "colleges", name: "colleges", instructions: "", model: scriptedModel(), tools });
  const run = await agent.generate("Which colleges are in New Jersey?");
  console.log(`The model says: ${run.text}`);
  const application = new DualClient({ baseUrl: `${origin}/resources` });
  for (const result of application.find(run)) {
    console.log(`The application has ${(await result.fetchAll()).length} rows of ${result.name}.`);
  }
} finally {
  await servers.disconnect();
}
