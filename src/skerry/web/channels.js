// The panel of chat platforms: accounts, people who wait to be let in, and what was not delivered.

import { clockTime, make, setText } from "./dom.js";
import { accountForm } from "./account.js";
import { routingForm } from "./routing.js";
import { toast } from "./toast.js";

const LOOK_MS = 3000;
const DEAD = ["failed", "unknown"];

/** The dialog. `page` has `gateway`, the one there is now. */
export class Panel {
  #dialog = make("dialog", { className: "setup panel channels", ariaLabel: "Channels" });
  #accounts = make("ul", { className: "questions" });
  #people = make("ul", { className: "questions" });
  #parts = make("ul", { className: "questions" });
  #told = make("p", { className: "help", role: "status" });
  #shown = ""; // what the lists show, so that a look that changes nothing keeps the focus
  #timer = 0;

  constructor(page) {
    this.page = page;
    const close = make("button", { className: "primary" }, "Close");
    const form = make("form", { method: "dialog" }, make("div", { className: "row end" }, close));
    const entry = accountForm(page, () => this.#read());
    this.#dialog.append(
      make("h2", {}, "Channels"),
      this.#told,
      this.#accounts,
      entry.root,
      make("h3", {}, "Pairing requests"),
      this.#people,
      make("h3", {}, "Not delivered"),
      this.#parts,
      routingForm(page),
      form,
    );
    this.#dialog.addEventListener("close", () => {
      clearInterval(this.#timer);
      entry.end();
    });
    document.body.append(this.#dialog);
  }

  /** Open it, with what there is now; it looks again while it is open. */
  async open() {
    this.#dialog.showModal();
    this.#timer = setInterval(() => void this.#look(), LOOK_MS);
    await this.#read();
  }

  /** Look again, which nobody asked for: it neither asks for rights nor keeps them. */
  async #look() {
    const { gateway } = this.page;
    const answers = await this.#ask((method, params) => gateway.quietly(method, params));
    if (answers.every(Boolean)) this.#show(...answers);
  }

  async #read() {
    const { gateway } = this.page;
    try {
      this.#show(...(await this.#ask((method, params) => gateway.request(method, params))));
    } catch (error) {
      setText(this.#told, error.message);
    }
  }

  async #ask(request) {
    return [
      await request("channels.status", {}),
      await request("outbox.list", { states: DEAD }),
      await request("channels.pairing.list", {}),
    ];
  }

  #show(status, { parts }, { requests }) {
    const accounts = status.channelOrder.flatMap((name) => status.channelAccounts[name]);
    const found = JSON.stringify([accounts, requests, parts]);
    if (found === this.#shown) return;
    this.#shown = found;
    this.#fill(this.#accounts, accounts.map((row) => this.#account(row, status.channelLabels)), "");
    this.#fill(this.#people, requests.map((row) => this.#person(row)), "No pairing requests.");
    this.#fill(this.#parts, parts.map((row) => this.#part(row)), "All replies are delivered.");
    const none = "No account is configured. Add one below, or in a terminal: skerry channels add telegram";
    setText(this.#told, accounts.length === 0 ? none : "");
  }

  #fill(list, rows, empty) {
    const shown = rows.length || !empty ? rows : [make("li", { className: "help" }, empty)];
    list.replaceChildren(...shown);
  }

  #account(row, labels) {
    const name = `${labels[row.channel]} ${row.accountId}`;
    const head = make("p", {}, make("strong", {}, name), ` ${row.name} `, make("span", { className: "state" }, row.state));
    const root = make("li", {}, head);
    for (const text of [row.about, row.lastError, row.remedy]) {
      if (text) root.append(make("p", { className: "help", dir: "auto" }, text));
    }
    if (row.running) {
      const params = { channel: row.channel, accountId: row.accountId };
      root.append(make("div", { className: "row" }, this.#button("Reconnect", name, "channels.restart", params)));
    }
    return root;
  }

  #person({ channel, accountId, code, senderId, senderName, expiresAtMs }) {
    const who = senderName || senderId;
    const text = `${who} (${senderId}) on ${channel}/${accountId}, code valid until ${clockTime(expiresAtMs)}`;
    const params = { channel, accountId, code };
    return make(
      "li",
      {},
      make("p", { dir: "auto" }, text),
      make("p", { className: "help" }, `Is this you? In a terminal: skerry pairing approve ${channel} ${code} --owner`),
      make(
        "div",
        { className: "row" },
        this.#button("Approve", who, "channels.pairing.approve", { ...params, notify: true }),
        this.#button("Reject", who, "channels.pairing.reject", params),
      ),
    );
  }

  #part({ serial, to, text, error, state }) {
    const where = `${to.channel}/${to.account}/${to.peer}: ${state}`;
    return make(
      "li",
      {},
      make("p", {}, where),
      make("p", { className: "help", dir: "auto" }, text),
      make("p", { className: "help", dir: "auto" }, error ?? ""),
      make(
        "div",
        { className: "row" },
        this.#button("Send again", `part ${serial}`, "outbox.retry", { serial }),
        this.#button("Drop", `part ${serial}`, "outbox.drop", { serial }),
      ),
    );
  }

  #button(text, what, method, params) {
    const button = make("button", { type: "button", className: "quiet", ariaLabel: `${text}: ${what}` }, text);
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        await this.page.gateway.request(method, params);
      } catch (error) {
        toast(error.message);
      }
      button.disabled = false;
      void this.page.undelivered.read();
      await this.#read();
    });
    return button;
  }
}
