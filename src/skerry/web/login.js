// Logins that a person carries out elsewhere: a sign-in in another tab, or a code that a phone reads.

import { make, setText } from "./dom.js";

const KINDS = { oauth: "Sign in in the browser", qr: "Link with a phone" };

/**
 * Make the part of the account form for such logins. `target()` returns {channel, accountId}, and
 * `done()` is called after one. Returns {root, ask(logins), end()}.
 */
export function elsewhere(page, target, done) {
  const root = make("div", { className: "stack" });
  let current = null; // the login under way: {id}, or {} until it has one

  const end = () => {
    const { id } = current ?? {};
    current = null;
    if (id) void page.gateway.quietly("channels.login.cancel", { id });
  };

  const ask = (logins) => {
    end();
    root.replaceChildren(...logins.map(({ kind, asks }) => formOf(kind, asks)));
  };

  const formOf = (kind, asks) => {
    const fields = asks.map(({ key, question }) => {
      const type = key.endsWith("Secret") ? "password" : "text";
      return make("label", {}, question, make("input", { type, name: key, autocomplete: "off", spellcheck: false }));
    });
    const start = make("button", { className: "quiet" }, KINDS[kind] ?? kind);
    const told = make("p", { className: "help", role: "status" });
    const shown = make("div", { className: "stack" });
    const form = make("form", { className: "stack", autocomplete: "off" }, ...fields, make("div", { className: "row end" }, start));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      end();
      const mine = (current = {});
      start.disabled = true;
      setText(told, "Starting.");
      const settings = Object.fromEntries([...form.elements].filter(({ name, value }) => name && value.trim()).map(({ name, value }) => [name, value]));
      try {
        const begun = await page.gateway.request("channels.login.start", { ...target(), kind, settings });
        if (current !== mine) {
          void page.gateway.quietly("channels.login.cancel", { id: begun.id });
          throw new Error("The login was cancelled. Start the login again.");
        }
        mine.id = begun.id;
        form.reset();
        setText(told, "Waiting for you.");
        shown.replaceChildren(...(begun.url ? browserParts(begun) : phoneParts(begun)), cancelButton(begun.id));
        shown.firstElementChild.focus();
        await outcome(begun.id);
        setText(told, "Saved. The state of the account is above.");
      } catch (error) {
        const { remedy } = error.details ?? {};
        setText(told, [error.message, remedy].filter(Boolean).join(" "));
      }
      if (current === mine) current = null;
      const held = shown.contains(document.activeElement);
      shown.replaceChildren();
      start.disabled = false;
      if (held) start.focus();
      await done();
    });
    return make("div", { className: "stack" }, form, told, shown);
  };

  const outcome = async (id) => {
    while ((await page.gateway.request("channels.login.wait", { id })).status === "waiting");
  };

  const cancelButton = (id) => {
    const button = make("button", { type: "button", className: "quiet" }, "Cancel");
    button.addEventListener("click", () => void page.gateway.quietly("channels.login.cancel", { id }));
    return make("div", { className: "row end" }, button);
  };

  const browserParts = ({ id, url }) => {
    const link = make("a", { href: safe(url), target: "_blank", rel: "noopener noreferrer" }, "Open the page of the provider (new tab)");
    const pasted = make("input", { type: "text", autocomplete: "off", spellcheck: false, required: true });
    const send = make("button", { className: "quiet" }, "Send the address");
    const form = make(
      "form",
      { className: "stack", autocomplete: "off" },
      make("label", {}, "Where the gateway is on another machine, the new tab ends at an address that it cannot reach. Paste that address", pasted),
      make("div", { className: "row end" }, send),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void page.gateway.quietly("channels.login.answer", { id, answer: pasted.value });
      pasted.value = "";
    });
    return [link, form];
  };

  const phoneParts = ({ uri, image }) => [
    make("img", { className: "qr", src: image, alt: "QR code for the phone; its address is below", tabIndex: -1 }),
    make("p", { className: "help" }, "On the phone: Settings, Linked devices, Link new device. Or open this address there:"),
    make("p", { className: "help address" }, uri),
  ];

  return { root, ask, end };
}

/** Return an address of the web; a provider's settings could name another scheme. */
function safe(url) {
  const { protocol, href } = new URL(url);
  if (protocol !== "https:" && protocol !== "http:") throw new Error(`${protocol} is not a web address.`);
  return href;
}
