// Random ids: idempotency keys and the id of this tab.

/**
 * Return 32 random hex digits. `crypto.randomUUID` exists only on secure origins, which a gateway
 * reached over plain HTTP on a home network is not.
 */
export function freshId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
