/**
 * A host on Vercel's AI SDK: the steps of a run are handed to the client. Run it beside server.py: node with_ai_sdk.ts
 *
 * npm install ai@7 @ai-sdk/mcp@2 dualsql-client
 */
import { createMCPClient } from "@ai-sdk/mcp";
import { generateText, isStepCount } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { DualClient } from "dualsql-client";

const origin = "http://127.0.0.1:8000";

/** In place of yours, `model: "openai/gpt-..."`: it asks for colleges, and then says that it did. */
function scriptedModel(): MockLanguageModelV4 {
  const counted = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0, text: 1, reasoning: 0 };
  const rest = { usage: { inputTokens: counted, outputTokens: counted }, warnings: [] };
  const input = JSON.stringify({ state: "NJ" });
  return new MockLanguageModelV4({
    doGenerate: [
      {
        content: [{ type: "tool-call", toolCallId: "1", toolName: "search_colleges", input }],
        finishReason: { unified: "tool-calls", raw: undefined },
        ...rest,
      },
      {
        content: [{ type: "text", text: "Here are colleges of New Jersey." }],
        finishReason: { unified: "stop", raw: undefined },
        ...rest,
      },
    ],
  });
}

const mcp = await createMCPClient({ transport: { type: "http", url: `${origin}/mcp` } });
try {
  const { text, steps } = await generateText({
    model: scriptedModel(),
    tools: await mcp.tools(),
    stopWhen: isStepCount(5),
    prompt: "Which colleges are in New Jersey?",
  });
  console.log(`The model says: ${text}`);
  const application = new DualClient({ baseUrl: `${origin}/resources` });
  for (const result of application.find(steps)) {
    console.log(`The application has ${(await result.fetchAll()).length} rows of ${result.name}.`);
  }
} finally {
  await mcp.close();
}
