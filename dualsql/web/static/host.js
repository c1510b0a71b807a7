// The host of the MCP App (MCP Apps, 2026-01-26): JSON-RPC over postMessage.

const PROTOCOL = "2026-01-26";

const waiting = new Map();
let lastId = 0;
let heard = () => {};

/** What the host can do, and how it shows the App: theme, displayMode, containerDimensions and more. */
export const host = { can: {}, context: {} };

export function notify(method, params = {}) {
  window.parent.postMessage({ jsonrpc: "2.0", method, params }, "*");
}

/** Resolves to the host's answer. An aborted request is called off at the server, too. */
export function ask(method, params, signal) {
  lastId += 1;
  const id = lastId;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    signal?.addEventListener("abort", () => {
      if (!waiting.delete(id)) return;
      notify("notifications/cancelled", { requestId: id });
      reject(signal.reason);
    }, { once: true });
    window.parent.postMessage({ jsonrpc: "2.0", id, method, params }, "*");
  });
}

/** Begin; `listener` is called with the method and the params of each notification, and of a teardown. */
export async function connect(listener) {
  heard = listener;
  const answer = await ask("ui/initialize", {
    appInfo: { name: "dualsql", version: "1" },
    appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
    protocolVersion: PROTOCOL,
  });
  host.can = answer.hostCapabilities ?? {};
  host.context = answer.hostContext ?? {};
}

window.addEventListener("message", ({ data, source }) => {
  if (source !== window.parent || data?.jsonrpc !== "2.0") return;
  if (data.method === undefined) settle(data);
  else if (data.id !== undefined) answer(data);
  else heard(data.method, data.params ?? {});
});

function settle({ id, error, result }) {
  const { resolve, reject } = waiting.get(id) ?? {};
  waiting.delete(id);
  if (error) reject?.(new Error(error.message));
  else resolve?.(result ?? {});
}

function answer({ id, method, params }) {
  const isKnown = method === "ping" || method === "ui/resource-teardown";
  if (method === "ui/resource-teardown") heard(method, params ?? {});
  const content = isKnown ? { result: {} } : { error: { code: -32601, message: "Method not found" } };
  window.parent.postMessage({ jsonrpc: "2.0", id, ...content }, "*");
}
