// The page: joins the session, the document and what the browser keeps.

import { view } from "./chat.js";
import { byId, setText } from "./dom.js";
import { claimToken, draft, forgetToken, keepToken } from "./keep.js";
import { Session } from "./session.js";
import { SetupPanel } from "./setup.js";
import { showAgent, showConnection, showModel, showNotice } from "./status.js";
import { ConversationView } from "./view.js";

// Why the gateway lets nobody in without another token, by its error codes.
const REASONS = {
  NOT_PAIRED: "This address came without one.",
  AUTH_TOKEN_MISSING: "This address came without one.",
  AUTH_TOKEN_MISMATCH: "The gateway did not accept the token.",
};

class Page {
  #session = null;
  #drawing = false;
  #conversation = new ConversationView({
    again: (text) => this.#write(text),
    example: (text) => this.#write(text),
    resend: (key) => this.#session.send(key),
    discard: (key) => this.#session.discard(key),
  });
  #setup = new SetupPanel((values) => this.#session.configure(values));

  constructor() {
    this.#bindComposer();
    byId("retry").addEventListener("click", () => this.#session.open());
    byId("earlier").addEventListener("click", () => this.#session.showEarlier());
    for (const id of ["model", "notice-button"]) {
      byId(id).addEventListener("click", () => this.#setup.open(this.#session.model));
    }
    byId("gate-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.start(keepToken(byId("gate-token").value));
      byId("gate-token").value = "";
    });
    window.addEventListener("hashchange", () => this.start(claimToken()));
    window.addEventListener("online", () => this.#session?.check());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.#session?.check();
    });
  }

  /** Begin with this token; with none, find out whether the gateway wants one. */
  start(token) {
    this.#session?.close();
    if (token && byId("gate").hidden) this.#show("chat");
    const url = new URL("./", location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    this.#session = new Session(url.href, token, {
      changed: () => this.#draw(),
      refused: (error) => this.#refused(error),
    });
    this.#session.open();
  }

  #refused(error) {
    const reason = REASONS[error.code] ?? REASONS[error.details.code];
    if (reason) forgetToken();
    setText(byId("gate-reason"), reason ?? error.message);
    this.#show("gate");
  }

  /** Show this part of the page, the conversation or the question for the token. */
  #show(part) {
    if (!byId(part).hidden) return;
    byId("gate").hidden = part !== "gate";
    byId("chat").hidden = byId("signals").hidden = part !== "chat";
    this.#compose();
    if (part === "gate") byId("gate-token").focus();
    else focusMessage();
  }

  #bindComposer() {
    const message = byId("message");
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    message.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#submit();
    });
    message.addEventListener("input", () => this.#compose());
    byId("stop").addEventListener("click", async () => {
      byId("stop").disabled = true;
      await this.#session.stop();
      byId("stop").disabled = false;
      focusMessage();
    });
    message.value = draft.load();
  }

  #submit() {
    const message = byId("message");
    const text = message.value.trim();
    if (!text) return;
    message.value = "";
    this.#compose();
    this.#write(text);
  }

  #write(text) {
    this.#conversation.follow();
    this.#session.write(text);
    focusMessage(); // the button that was pressed may be gone
  }

  /** Keep the draft, and let the box be as high as its text. */
  #compose() {
    const message = byId("message");
    draft.save(message.value);
    byId("send").disabled = message.value.trim() === "";
    message.style.height = "auto";
    message.style.height = `${message.scrollHeight}px`;
  }

  /** Draw once per frame, however much has changed. */
  #draw() {
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => {
      this.#drawing = false;
      const { phase, hello, model, conversation, problem, hasEarlier } = this.#session;
      if (["online", "offline"].includes(phase.phase)) this.#show("chat");
      showAgent(hello);
      showConnection(phase);
      showModel(model);
      showNotice(phase, model, problem);
      this.#conversation.render(view(conversation), conversation.key !== "");
      byId("earlier").hidden = !hasEarlier;
      byId("stop").hidden = conversation.runs.length === 0 || phase.phase !== "online";
    });
  }
}

/** Be ready to type; not where that would open a keyboard over half of the screen. */
function focusMessage() {
  if (matchMedia("(pointer: fine)").matches) byId("message").focus();
}

new Page().start(claimToken());
