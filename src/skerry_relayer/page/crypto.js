// Signs requests and certificates with a delegate key, which never leaves the page.

const LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const PKCS8 = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
const CERTIFICATE_MINUTES = 5;
const RENEW_MS = 4 * 60 * 1000;

const IV = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
const SIGMA = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
  [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
  [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
  [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
  [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const COLUMNS = [
  [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
  [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14],
];
const MASK = 0xffffffffffffffffn;
const rotated = (value, by) => ((value >> by) | (value << (64n - by))) & MASK;

/** Returns the 32 bytes of blake2b-256 (RFC 7693) of `bytes`. */
export function blake2b(bytes) {
  const state = [...IV];
  state[0] ^= 0x01010020n;
  const blocks = Math.max(1, Math.ceil(bytes.length / 128));
  for (let block = 0; block < blocks; block += 1) {
    const end = Math.min((block + 1) * 128, bytes.length);
    const padded = new Uint8Array(128);
    padded.set(bytes.subarray(block * 128, end));
    compress(state, new DataView(padded.buffer), BigInt(end), block === blocks - 1);
  }
  const out = new DataView(new ArrayBuffer(32));
  for (let i = 0; i < 4; i += 1) out.setBigUint64(i * 8, state[i], true);
  return new Uint8Array(out.buffer);
}

function compress(state, data, counted, isLast) {
  const word = (i) => data.getBigUint64(i * 8, true);
  const v = [...state, ...IV];
  v[12] ^= counted;
  if (isLast) v[14] ^= MASK;
  for (let round = 0; round < 12; round += 1) {
    const order = SIGMA[round % 10];
    COLUMNS.forEach(([a, b, c, d], i) => {
      v[a] = (v[a] + v[b] + word(order[2 * i])) & MASK;
      v[d] = rotated(v[d] ^ v[a], 32n);
      v[c] = (v[c] + v[d]) & MASK;
      v[b] = rotated(v[b] ^ v[c], 24n);
      v[a] = (v[a] + v[b] + word(order[2 * i + 1])) & MASK;
      v[d] = rotated(v[d] ^ v[a], 16n);
      v[c] = (v[c] + v[d]) & MASK;
      v[b] = rotated(v[b] ^ v[c], 63n);
    });
  }
  for (let i = 0; i < 8; i += 1) state[i] ^= v[i] ^ v[i + 8];
}

export const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (text) => Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));
const base64 = (bytes) => btoa(String.fromCharCode(...bytes));
const utf8 = (text) => new TextEncoder().encode(text);
const joined = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));

/** Returns the bech32 text of an Ed25519 seed, as Sui prints private keys. */
export function suiprivkey(seed) {
  const words = [];
  let value = 0;
  let bits = 0;
  for (const byte of [0, ...seed]) {
    value = ((value << 8) | byte) & 0xffff;
    bits += 8;
    for (; bits >= 5; bits -= 5) words.push((value >> (bits - 5)) & 31);
  }
  if (bits) words.push((value << (5 - bits)) & 31);
  const prefix = [..."suiprivkey"].map((letter) => letter.charCodeAt(0));
  const expanded = [...prefix.map((code) => code >> 5), 0, ...prefix.map((code) => code & 31)];
  const check = polymod([...expanded, ...words, 0, 0, 0, 0, 0, 0]) ^ 1;
  for (let i = 0; i < 6; i += 1) words.push((check >>> (5 * (5 - i))) & 31);
  return `suiprivkey1${words.map((word) => LETTERS[word]).join("")}`;
}

function polymod(values) {
  let check = 1;
  for (const value of values) {
    const top = check >>> 25;
    check = ((check & 0x1ffffff) << 5) ^ value;
    [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3].forEach((part, i) => {
      if ((top >>> i) & 1) check ^= part;
    });
  }
  return check;
}

/** A delegate key: a seed that `crypto.subtle` keeps, and its public key. */
export class Key {
  constructor(key, publicKey) {
    this.key = key;
    this.publicKey = publicKey;
  }

  /** Makes the key of a seed of 32 bytes; the page cannot read the seed from it again. */
  static async of(seed) {
    const der = joined(PKCS8, seed);
    const open = await crypto.subtle.importKey("pkcs8", der, { name: "Ed25519" }, true, ["sign"]);
    const { x } = await crypto.subtle.exportKey("jwk", open);
    const padded = x.replace(/-/g, "+").replace(/_/g, "/");
    const publicKey = Uint8Array.from(atob(padded), (letter) => letter.charCodeAt(0));
    const key = await crypto.subtle.importKey("pkcs8", der, { name: "Ed25519" }, false, ["sign"]);
    return new Key(key, publicKey);
  }

  static ofHex(text) {
    return Key.of(unhex(text));
  }

  async sign(bytes) {
    return new Uint8Array(await crypto.subtle.sign({ name: "Ed25519" }, this.key, bytes));
  }
}

/** Signs requests of one delegate for one account. */
export class Signer {
  constructor(key, accountId, packageId) {
    this.key = key;
    this.accountId = accountId;
    this.packageId = packageId;
    this.made = 0;
  }

  /** Returns the headers of a request. */
  async headers(method, path, body) {
    const time = Math.floor(Date.now() / 1000);
    const nonce = crypto.randomUUID();
    const digest = hex(new Uint8Array(await crypto.subtle.digest("SHA-256", utf8(body))));
    const message = `${time}.${method}.${path}.${digest}.${nonce}.${this.accountId}`;
    return {
      "content-type": "application/json",
      "x-public-key": hex(this.key.publicKey),
      "x-signature": hex(await this.key.sign(utf8(message))),
      "x-timestamp": String(time),
      "x-nonce": nonce,
      "x-account-id": this.accountId,
      "x-seal-session": await this.certificate(),
    };
  }

  /** Returns a certificate for decryption that is valid for at least another minute. */
  async certificate() {
    if (Date.now() - this.made > RENEW_MS) {
      this.made = Date.now();
      this.header = await this.newCertificate(this.made);
    }
    return this.header;
  }

  async newCertificate(now) {
    const seed = crypto.getRandomValues(new Uint8Array(32));
    const session = await Key.of(seed);
    const date = new Date(now).toISOString().slice(0, 19).replace("T", " ");
    const text = utf8(
      `Accessing keys of package ${this.packageId} for ${CERTIFICATE_MINUTES} mins from ${date} UTC, ` +
        `session key ${base64(session.publicKey)}`,
    );
    const length = [(text.length & 127) | 128, text.length >> 7];
    const signature = await this.key.sign(blake2b(joined([3, 0, 0], length, text)));
    const fields = {
      address: `0x${hex(blake2b(joined([0], this.key.publicKey)))}`,
      packageId: this.packageId,
      creationTimeMs: now,
      ttlMin: CERTIFICATE_MINUTES,
      personalMessageSignature: base64(joined([0], signature, this.key.publicKey)),
      sessionKey: suiprivkey(seed),
    };
    return btoa(JSON.stringify(fields));
  }
}
