// A host of MCP Apps: the AppBridge of @modelcontextprotocol/ext-apps, a client of an MCP server over HTTP, and a sandbox of
// another origin, in whose inner frame the App runs with scripts alone.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { AppBridge, PostMessageTransport, getToolUiResourceUri } from "@modelcontextprotocol/ext-apps/app-bridge";

const INFO = { name: "bridge", version: "1" };
const ALL = { openLinks: {}, downloadFile: {}, updateModelContext: { text: {} }, serverTools: {} };
const CONTEXT = { theme: "light", displayMode: "inline", availableDisplayModes: ["inline", "fullscreen"], locale: "en-US" };

const frame = document.querySelector("iframe");
const log = (window.log = { sizes: [], contexts: [], links: [], files: [], calls: [], cancelled: [], modes: [] });
let bridge;

async function connected(token) {
  const client = new Client(INFO, { capabilities: { extensions: { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } } } });
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  await client.connect(new StreamableHTTPClientTransport(new URL("/mcp", location.href), { requestInit: { headers } }));
  return client;
}

function answersOf(made, client, { capabilities, refuses = [] }) {
  made.addEventListener("sizechange", (size) => {
    log.sizes.push(size);
    if (log.modes.at(-1) !== "fullscreen") frame.style.height = `${size.height}px`;
  });
  made.onupdatemodelcontext = async (params) => { log.contexts.push(params); return {}; };
  made.onopenlink = async ({ url }) => { log.links.push(url); return { isError: refuses.includes("link") }; };
  made.ondownloadfile = async ({ contents }) => { log.files.push(...contents); return {}; };
  made.onrequestdisplaymode = async ({ mode }) => {
    log.modes.push(mode);
    frame.style.height = mode === "fullscreen" ? "100vh" : "300px";
    made.setHostContext({ ...CONTEXT, displayMode: mode });
    return { mode };
  };
  if (!capabilities.serverTools) return;
  made.oncalltool = async (params, extra) => {
    log.calls.push(params);
    extra.mcpReq.signal.addEventListener("abort", () => log.cancelled.push(params));
    return client.request({ method: "tools/call", params }, { signal: extra.mcpReq.signal });
  };
}

/** Call a tool as a model does, and show its result in the App that the tool names. */
window.start = async (tool, { capabilities = ALL, context = {}, token, readAs = token, refuses, sends = "result" } = {}) => {
  const model = await connected(token);
  const reader = readAs === token ? model : await connected(readAs);
  const { tools } = await model.listTools();
  const uri = getToolUiResourceUri(tools.find((each) => each.name === tool) ?? {});
  const { contents: [document_] } = await model.readResource({ uri });
  const result = await model.callTool({ name: tool, arguments: {} });
  window.result = result;
  bridge = new AppBridge(null, INFO, capabilities, { hostContext: { ...CONTEXT, ...context } });
  answersOf(bridge, reader, { capabilities, refuses });
  const initialized = new Promise((resolve) => bridge.addEventListener("initialized", resolve));
  bridge.addEventListener("sandboxready", () => bridge.sendSandboxResourceReady({ html: document_.text }));
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.src = document.body.dataset.sandbox;
  await initialized;
  await bridge.sendToolInput({ arguments: {} });
  if (sends === "result") await bridge.sendToolResult(result);
  if (sends === "text") await bridge.sendToolResult({ content: result.content });
  if (sends === "cancelled") await bridge.sendToolCancelled({ reason: "The person stopped it." });
  return { uri, mimeType: document_.mimeType, app: bridge.getAppVersion(), can: bridge.getAppCapabilities() };
};

window.setContext = (context) => bridge.setHostContext({ ...CONTEXT, ...context });
window.tearDown = async () => {
  const answer = await bridge.teardownResource({});
  frame.remove();
  return answer;
};
