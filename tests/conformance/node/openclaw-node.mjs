// A client that others wrote, against a gateway: node openclaw-node.mjs URL TOKEN HOME.
// Prints one JSON line of what it saw. It asks for no tool events of itself, so that is added.
import { OpenClawClient } from "openclaw-node";
import { join } from "node:path";

const [url, token, home] = process.argv.slice(2);

class Curious extends OpenClawClient {
  send(frame) {
    if (frame.method === "connect") frame.params.caps = ["tool-events"];
    super.send(frame);
  }
}

const client = new Curious({
  url,
  token,
  deviceIdentityPath: join(home, "device.json"),
  scopes: ["operator.read", "operator.write", "operator.admin"],
  autoReconnect: false,
});
const seen = { errors: [] };
client.on("error", (error) => seen.errors.push(String(error)));

async function collect(chunks) {
  const list = [];
  for await (const { type, text } of chunks) list.push([type, text]);
  return list;
}

const key = "agent:main:main";
seen.hello = await client.connect();
seen.health = await client.health();
seen.agents = await client.agents.list();
seen.channels = await client.channels.status();
seen.chat = await collect(client.chat("ping", { sessionKey: key, clientMessageId: "m1" }));
seen.history = await client.sessions.history(key, { limit: 10 });
seen.list = await client.sessions.list({ limit: 5 });

const slow = [];
const started = Promise.withResolvers();
const telling = (async () => {
  for await (const { type, text, runId } of client.chat("slow", { sessionKey: key })) {
    slow.push([type, text]);
    if (type === "text") started.resolve(runId);
  }
})();
const runId = await started.promise;
seen.aborted = await client.chatAbort(key, runId);
await telling;
seen.slow = slow;
seen.waited = await client.agentWait(runId, { timeoutMs: 5000 });

for (const method of ["describe", "compact", "reset", "delete"]) {
  if (!client.hasMethod(`sessions.${method}`)) continue;
  seen[method] = await client.sessions[method](method === "delete" ? "agent:main:other" : key).catch(
    (error) => ({ error: error.message }),
  );
}
seen.refused = await client.request("no.such.method").catch((error) => error.message);
console.log(JSON.stringify(seen));
await client.disconnect();
