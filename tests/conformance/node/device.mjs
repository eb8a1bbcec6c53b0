// The official client with a device of its own: node device.mjs URL TOKEN. Prints what it saw.
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { GatewayClient } from "@openclaw/gateway-client";

const [url, token] = process.argv.slice(2);
const keys = generateKeyPairSync("ed25519");
const raw = keys.publicKey.export({ format: "jwk" }).x;
const deviceIdentity = {
  deviceId: createHash("sha256").update(Buffer.from(raw, "base64url")).digest("hex"),
  publicKeyPem: raw,
  privateKeyPem: "",
};
const tokens = new Map();
const hostDeps = {
  signDevicePayload: (_pem, payload) =>
    sign(null, Buffer.from(payload), keys.privateKey).toString("base64url"),
  publicKeyRawBase64UrlFromPem: (pem) => pem,
  loadDeviceAuthToken: ({ role }) => tokens.get(role) ?? null,
  storeDeviceAuthToken: ({ role, token, scopes }) => tokens.set(role, { token, scopes }),
};

async function connect(options) {
  const connected = Promise.withResolvers();
  const client = new GatewayClient({
    url,
    deviceIdentity,
    hostDeps,
    onHelloOk: connected.resolve,
    onConnectError: connected.reject,
    ...options,
  });
  client.start();
  return { client, hello: await connected.promise };
}

const first = await connect({ token, scopes: ["operator.read", "operator.write", "operator.pairing"] });
const again = await connect({});
const nodeHost = { clientName: "node-host", mode: "node", role: "node", commands: ["camera.snap"] };
const node = await connect({
  token,
  ...nodeHost,
  onEvent: ({ event, payload }) => {
    if (event !== "node.invoke.request") return;
    node.client.request("node.invoke.result", {
      id: payload.id,
      nodeId: payload.nodeId,
      ok: true,
      payloadJSON: payload.paramsJSON,
    });
  },
});
const nodeId = deviceIdentity.deviceId;
const invoked = await first.client.request("node.invoke", {
  nodeId,
  command: "camera.snap",
  params: { lens: "front" },
  idempotencyKey: "k",
});
const listing = await again.client.request("device.pair.list", {});
const stale = await connect({ token: "stale", scopes: ["operator.read"] }).catch((error) => error.details);
console.log(
  JSON.stringify({
    deviceId: nodeId,
    first: first.hello.auth,
    again: again.hello.auth,
    node: node.hello.auth,
    invoked,
    listing,
    stale,
  }),
);
process.exit(0);
