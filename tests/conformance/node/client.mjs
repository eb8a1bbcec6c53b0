// The official client against a gateway: node client.mjs URL TOKEN. Prints one JSON line of results.
import { GatewayClient } from "@openclaw/gateway-client";

const [url, token] = process.argv.slice(2);
const seen = { events: [], gaps: [], accepted: null };

const connected = Promise.withResolvers();
const client = new GatewayClient({
  url,
  token,
  onHelloOk: connected.resolve,
  onConnectError: connected.reject,
  onGap: (gap) => seen.gaps.push(gap),
  onEvent: ({ event, payload, seq }) => seen.events.push({ event, payload, seq }),
});

client.start();
const hello = await connected.promise;
const health = await client.request("health", {});
const final = await client.request(
  "agent",
  { message: "ping", idempotencyKey: crypto.randomUUID() },
  { expectFinal: true, onAccepted: (payload) => (seen.accepted = payload) },
);
const refused = await client.request("no.such.method", {}).catch((error) => ({
  name: error.name,
  code: error.gatewayCode ?? error.code,
  message: error.message,
}));
console.log(JSON.stringify({ hello, health, final, refused, ...seen }));
client.stop();
