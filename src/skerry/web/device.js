// This browser's identity towards the gateway: an Ed25519 key that cannot leave it.

const STORE = "identity";
const KEY = "device";

/**
 * Return `{id, publicKey, privateKey}`, made on the first visit; null where the browser has no keys
 * for pages, as on plain HTTP from another machine.
 */
export async function identity() {
  if (!globalThis.crypto?.subtle) return null;
  try {
    const database = await opened();
    const known = await within(database, "readonly", (store) => store.get(KEY));
    if (known) return known;
    const made = await make();
    // Another tab may have been faster: the first one counts.
    await within(database, "readwrite", (store) => store.add(made, KEY)).catch(() => null);
    return await within(database, "readonly", (store) => store.get(KEY));
  } catch {
    return null;
  }
}

/** Return the `device` of a connect request that says `about`, answering the gateway's nonce. */
export async function proof({ id, publicKey, privateKey }, nonce, { client, role, scopes, token }) {
  const signedAt = Date.now();
  const said = [id, client.id, client.mode, role, scopes.join(","), signedAt, token, nonce];
  const text = ["v3", ...said, client.platform, ""].join("|");
  const signature = await crypto.subtle.sign("Ed25519", privateKey, new TextEncoder().encode(text));
  return { id, publicKey, signature: base64url(signature), signedAt, nonce };
}

async function make() {
  const { publicKey, privateKey } = await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"]);
  const raw = await crypto.subtle.exportKey("raw", publicKey);
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", raw));
  const id = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { id, publicKey: base64url(raw), privateKey };
}

function opened() {
  const request = indexedDB.open("skerry", 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE);
  return ended(request);
}

function within(database, mode, act) {
  return ended(act(database.transaction(STORE, mode).objectStore(STORE)));
}

function ended(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function base64url(bytes) {
  const text = btoa(String.fromCharCode(...new Uint8Array(bytes)));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
