// The page of an owner: sees, searches, adds, exports and forgets memories.

import { Api } from "./api.js";
import { Key, Signer } from "./crypto.js";

const SHOWN = 100;
const at = (id) => document.getElementById(id);
const state = { api: null, owner: "", namespace: "", rows: [], shown: 0, pending: new Map() };

/** Makes an element with attributes and children; text children are never markup. */
function made(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function say(text, isBad = false) {
  at("status").textContent = text;
  at("status").dataset.bad = String(isBad);
}

/** Runs an action of the person; a failure is shown and ends nothing. */
async function acting(work, button) {
  if (button) button.disabled = true;
  try {
    await work();
  } catch (error) {
    say(error instanceof TypeError ? "The relayer does not answer. Is it running?" : error.message, true);
  } finally {
    if (button) button.disabled = false;
  }
}

const size = (bytes) =>
  bytes < 1024 ? `${bytes} bytes` : bytes < 1048576 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 1048576).toFixed(1)} MB`;

const day = (time) =>
  new Date(time).toLocaleDateString("en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric" });

async function signIn() {
  const account = at("account").value.trim().toLowerCase();
  const secret = at("key").value.trim().toLowerCase();
  if (!/^0x[0-9a-f]{64}$/.test(account)) throw new Error("The account id is 0x and 64 hex digits. `skerry relayer key list` shows it.");
  if (!/^[0-9a-f]{64}$/.test(secret)) throw new Error("The delegate key is 64 hex digits. `skerry relayer key add` makes one.");
  if (!crypto.subtle) throw new Error("This address is not secure, so the browser signs nothing. Use https:// or 127.0.0.1.");
  const config = await (await fetch("/config")).json();
  const key = await Key.ofHex(secret);
  at("key").value = "";
  const api = new Api(new Signer(key, account, config.packageId));
  state.owner = await api.owner();
  state.api = api;
  at("sign-in").hidden = true;
  at("memory").hidden = false;
  await refresh();
  at("question").focus();
}

function signOut() {
  Object.assign(state, { api: null, owner: "", namespace: "", rows: [], shown: 0, pending: new Map() });
  for (const id of ["namespaces", "memories", "found", "keys", "jobs", "usage"]) at(id).replaceChildren();
  at("memory").hidden = true;
  at("sign-in").hidden = false;
  at("account").focus();
  say("Signed out. The key is gone from this page.");
}

async function refresh() {
  const namespaces = await state.api.all(state.owner, "namespaces");
  const kept = namespaces.some((row) => row.name === state.namespace);
  if (!kept) state.namespace = (namespaces.find((row) => row.name === "default") ?? namespaces[0])?.name ?? "default";
  showUsage(namespaces);
  showNamespaces(namespaces);
  showKeys((await state.api.send("GET", `/v1/owners/${state.owner}/agents`)).agents);
  const rows = await state.api.all(state.owner, "memories");
  state.rows = rows.filter((row) => row.namespace_id === state.namespace).reverse();
  state.shown = 0;
  at("memories").replaceChildren();
  await showMore();
  say(rows.length ? `${state.rows.length} of ${rows.length} memories are in ${state.namespace}.` : "No memory yet. Add one below, or let a client remember something.");
}

function showUsage(namespaces) {
  const count = namespaces.reduce((sum, row) => sum + row.memory_count, 0);
  const used = namespaces.reduce((sum, row) => sum + row.storage_used, 0);
  at("usage").textContent = `${count} ${count === 1 ? "memory" : "memories"} in ${namespaces.length} ${namespaces.length === 1 ? "namespace" : "namespaces"}, ${size(used)} of ciphertext`;
}

function showNamespaces(namespaces) {
  const buttons = namespaces.map((row) => {
    const button = made("button", { type: "button", "aria-pressed": String(row.name === state.namespace) }, `${row.name} (${row.memory_count})`);
    button.addEventListener("click", () => acting(async () => {
      state.namespace = row.name;
      await refresh();
    }));
    return made("li", {}, button);
  });
  at("namespaces").replaceChildren(...buttons);
}

/** Shows the next memories of the namespace, newest first, beneath their days. */
async function showMore() {
  const rows = state.rows.slice(state.shown, state.shown + SHOWN);
  const texts = await state.api.texts(rows.map((row) => row.memory_id));
  for (const row of rows) {
    const named = day(row.created_at);
    let list = at("memories").lastElementChild?.querySelector("ul");
    if (!list || at("memories").lastElementChild.dataset.day !== named) {
      list = made("ul");
      const section = made("section", { "data-day": named }, made("h3", {}, named), list);
      at("memories").append(section);
    }
    list.append(item(row.memory_id, texts.get(row.memory_id), row.created_at));
  }
  state.shown += rows.length;
  at("more").hidden = state.shown >= state.rows.length;
}

function item(id, text, time, relevance) {
  const shown = text === undefined ? "This memory cannot be opened." : text || "Encrypted by its client; only the client can open it.";
  const forget = made("button", { type: "button", class: "quiet", "aria-label": `Forget: ${shown.slice(0, 60)}` }, "Forget");
  const row = made("li", {}, made("p", {}, shown), made("div", { class: "about" }, made("time", { datetime: time }, new Date(time).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })), relevance ?? "", forget));
  forget.addEventListener("click", () => askFirst(`Forget this memory? “${shown.slice(0, 200)}” It cannot be brought back.`, async () => {
    await state.api.post("/api/memories/forget", { ids: [id] });
    await refresh();
    at("found").replaceChildren();
    say("Forgotten.");
  }));
  return row;
}

function askFirst(text, work) {
  const dialog = at("ask");
  at("ask-text").textContent = text;
  dialog.returnValue = "";
  dialog.onclose = () => {
    if (dialog.returnValue === "yes") acting(work);
  };
  dialog.showModal();
}

async function search() {
  const query = at("question").value.trim();
  if (!query) throw new Error("Type what to look for.");
  const { results } = await state.api.post("/api/recall", { query, limit: 20, namespace: state.namespace });
  const rows = results.map((hit) => item(hit.id, hit.text, hit.created_at, `${Math.max(0, Math.round((1 - hit.distance) * 100))}% relevant`));
  at("found").replaceChildren(...rows);
  say(results.length ? `Found ${results.length} in ${state.namespace}.` : `Nothing in ${state.namespace} fits.`);
}

async function remember() {
  const text = at("text").value.trim();
  const namespace = at("into").value.trim() || state.namespace;
  if (!text) throw new Error("Type what to remember.");
  const { job_id: id } = await state.api.post("/api/remember", { text, namespace, idempotency_key: crypto.randomUUID() });
  at("text").value = "";
  say("Accepted. It is being stored.");
  await follow(id);
}

/** Shows a job until it has ended. */
async function follow(id) {
  const row = made("li", {}, "waiting");
  at("jobs").prepend(row);
  at("no-jobs").hidden = true;
  for (let wait = 100; ; wait = Math.min(wait * 1.5, 3000)) {
    const job = await state.api.send("GET", `/api/remember/${id}`);
    row.textContent = `${new Date().toLocaleTimeString("en-GB")} ${job.namespace}: ${job.status}${job.error ? `, ${job.error}` : ""}`;
    if (job.status === "done" || job.status === "failed") break;
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
  await refresh();
}

async function save() {
  const rows = await state.api.all(state.owner, "memories");
  const texts = await state.api.texts(rows.map((row) => row.memory_id));
  const memories = rows.map((row) => ({ id: row.memory_id, namespace: row.namespace_id, created_at: row.created_at, text: texts.get(row.memory_id) ?? null }));
  const link = made("a", { href: URL.createObjectURL(new Blob([JSON.stringify({ owner: state.owner, memories }, null, 2)], { type: "application/json" })), download: "memories.json" });
  link.click();
  URL.revokeObjectURL(link.href);
  say(`Exported ${memories.length} memories as plain text.`);
}

function showKeys(keys) {
  at("keys").replaceChildren(...keys.map((key) => made("li", {},
    made("strong", {}, key.label || "no label"), " ", made("code", {}, `${key.public_key.slice(0, 8)}…${key.public_key.slice(-4)}`),
    ` since ${day(key.created_at)}, ${key.namespaces ? `only ${key.namespaces.join(", ")}` : "all namespaces"}`)));
}

const on = (id, event, work) => at(id).addEventListener(event, (occurred) => {
  occurred.preventDefault();
  acting(work, occurred.submitter ?? (event === "click" ? at(id) : null));
});
on("sign-in", "submit", signIn);
on("sign-out", "click", async () => signOut());
on("search", "submit", search);
on("remember", "submit", remember);
on("more", "click", showMore);
on("export", "click", save);
on("refresh", "click", refresh);
on("forget-all", "click", async () => askFirst(`Forget all memories of the namespace ${state.namespace}? They cannot be brought back.`, async () => {
  const { deleted } = await state.api.post("/api/forget", { namespace: state.namespace });
  await refresh();
  say(`Forgot ${deleted} memories.`);
}));
