// The page: joins the gateway, the document and what the browser keeps.

import { view, working } from "./chat.js";
import { Composer } from "./composer.js";
import { byId, setText } from "./dom.js";
import { Gateway } from "./gateway.js";
import { deviceToken, forgetToken, keepToken, keptToken, letIn, triedToken } from "./keep.js";
import { SessionList } from "./list.js";
import { showPanels } from "./panels.js";
import { here, hideToken } from "./route.js";
import { bindShortcuts } from "./shortcuts.js";
import * as status from "./status.js";
import { TaintLine } from "./taint.js";
import { toast } from "./toast.js";
import { Undelivered } from "./undelivered.js";
import { ConversationView } from "./view.js";

const PAIRING_RETRY_MS = 4000;

// The buttons that open a panel, and the module that it is.
const PANELS = {
  model: "./setup.js",
  memory: "./memory/panel.js",
  usage: "./usage.js",
  channels: "./channels.js",
  schedule: "./schedule.js",
  tools: "./tools.js",
  approvals: "./inbox.js",
  waiting: "./inbox.js",
  undelivered: "./channels.js",
};

const CARDS = document.querySelectorAll("[data-opens]"); // of the first screen; each opens a panel

// Failures of a model that another key can mend.
const KEY_PROBLEMS = ["model.auth", "model.billing", "model.sign_in"];
// Why the gateway lets nobody in without another token, by its error codes.
const REASONS = {
  AUTH_TOKEN_MISSING: "This address has no token.",
  AUTH_TOKEN_MISMATCH: "The gateway did not accept the token.",
  AUTH_DEVICE_TOKEN_MISMATCH: "This browser is no longer paired.",
};

class Page {
  gateway = null;
  #drawing = false;
  #announced = "";
  #pairingTimer = 0;
  #conversation = new ConversationView({
    again: (item) => this.#again(item),
    changeKey: () => this.#open("./setup.js"),
    needsKey: () => KEY_PROBLEMS.includes(this.gateway.model?.failure?.code),
    example: (text) => this.#write(text),
    resend: (key) => this.gateway.session.send(key),
    discard: (key) => this.gateway.session.discard(key),
    takeBack: (item) => this.#takeBack(item),
    decide: (id, decision) => this.gateway.approvals.decide(id, decision),
    canUndo: () => this.gateway.can("files.undo"),
    undo: (run, files) => this.#undo(run, files),
  });
  #composer = new Composer({
    write: (text, images) => this.#write(text, images),
    stop: () => this.gateway.session.stop(),
  });
  #taint = new TaintLine(this);
  undelivered = new Undelivered(this);
  #list = new SessionList(this);
  #panels = new Map(); // those that were opened, by their module

  constructor() {
    byId("download").addEventListener("click", () => this.#download());
    byId("retry").addEventListener("click", () => this.gateway.open());
    byId("earlier").addEventListener("click", () => this.gateway.session.showEarlier());
    byId("gate-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.start(byId("gate-token").value.trim(), true);
      byId("gate-token").value = "";
    });
    for (const [id, module] of Object.entries(PANELS)) {
      byId(id).addEventListener("click", () => this.#open(module));
    }
    for (const card of CARDS) card.addEventListener("click", () => byId(card.dataset.opens).click());
    byId("notice-button").addEventListener("click", ({ currentTarget }) => {
      const { offer } = currentTarget.dataset;
      void (offer ? this.#trust(offer) : this.#open(PANELS.model));
    });
    bindShortcuts({
      memory: () => !byId("memory").hidden && void this.#open(PANELS.memory),
      begin: () => this.#list.begin(),
      search: () => this.#list.search(),
      move: (step) => this.#list.move(step),
      stop: () => !byId("stop").hidden && void this.#composer.stop(),
    });
    window.addEventListener("popstate", () => this.#travel());
    window.addEventListener("online", () => this.gateway.check());
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) return;
      this.gateway.check();
      this.#draw();
    });
    document.addEventListener("click", (event) => this.#follow(event));
    setInterval(() => {
      status.showCountdown(this.gateway.phase);
      this.#conversation.tick(Date.now());
    }, 1000);
  }

  /**
   * Begin with this token; with none, find out whether the gateway wants one. One that is new is
   * kept when the gateway has accepted it, and not before: a link must not replace one that works.
   */
  start(token, isNew = false) {
    const isTried = isNew && token !== keptToken();
    let isKept = !isTried;
    if (isTried) triedToken.save(token);
    clearTimeout(this.#pairingTimer);
    this.gateway?.close();
    if (token && byId("gate").hidden) this.#show("chat");
    const url = new URL("./", location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    url.hash = url.search = "";
    this.gateway = new Gateway(url.href, token, {
      changed: () => {
        if (!isKept && this.gateway.online) {
          isKept = Boolean(token);
          if (token) keepToken(token);
          triedToken.forget();
        }
        this.#draw();
      },
      refused: (error) => this.#refused(error, token, isTried),
      allow: async (method) => (await import("./admin.js")).ask(method),
    }, isTried);
    this.#taint.follow(this.gateway);
    this.gateway.show(here().session);
    this.#composer.turnTo(here().session);
    this.gateway.open();
  }

  /** Be ready to type. */
  focus() {
    this.#composer.focus();
  }

  /** The address has changed: another token, or another conversation. */
  #travel() {
    const { token, session } = here();
    hideToken();
    if (token) {
      this.start(token.trim(), true);
      return;
    }
    if (session === this.gateway.session.key) return;
    this.gateway.show(session);
    this.#composer.turnTo(session);
    this.#list.left();
  }

  /** Follow a link to a conversation without loading the page again. */
  #follow(event) {
    const link = event.target.closest?.("a[href]");
    const plain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.button);
    if (!link || !plain || link.target || event.defaultPrevented) return;
    if (link.origin !== location.origin || link.pathname !== location.pathname) return;
    if (link.hash === "#message") return;
    event.preventDefault();
    history.pushState(null, "", link.href);
    this.#travel();
    this.#list.left();
  }

  #refused(error, token, isTried) {
    const code = error.details.code ?? error.code;
    if (code === "PAIRING_REQUIRED") {
      letIn.save();
      this.#pairingTimer = setTimeout(() => this.start(token, isTried), PAIRING_RETRY_MS);
    }
    const reason = REASONS[code];
    if (reason) triedToken.forget();
    if (reason && isTried && (keptToken() || deviceToken.load())) {
      toast("The gateway did not accept the new token. The page continues with its previous token.");
      this.start(keptToken());
      return;
    }
    if (reason) forgetToken();
    status.showGate(code, error, reason ?? error.message);
    this.#show("gate");
  }

  /** Show this part of the page, the conversation or the question for the token. */
  #show(part) {
    document.body.dataset.part = part;
    if (!byId(part).hidden) return;
    byId("gate").hidden = part !== "gate";
    byId("chat").hidden = byId("signals").hidden = part !== "chat";
    this.#composer.arrange();
    if (part === "gate") byId("gate-token").focus();
    else this.focus();
  }

  /** Open a panel; its module is loaded for the first time only then. */
  async #open(module) {
    try {
      const { Panel } = await import(module);
      const panel = this.#panels.get(module) ?? new Panel(this);
      this.#panels.set(module, panel);
      panel.open();
    } catch (error) {
      toast(error.message);
    }
  }

  /** Use a local model server that was found. */
  async #trust(server) {
    try {
      const { model } = await this.gateway.trust(server);
      if (model) toast(`${model.name || model.id} answers now.`);
    } catch (error) {
      toast(error.message);
    }
  }

  /** Save the conversation that is shown as a file. */
  async #download() {
    try {
      const { save } = await import("./export.js");
      save(byId("title").textContent, await this.gateway.session.whole());
    } catch (error) {
      toast(error.message);
    }
  }

  #again(item) {
    if (!this.gateway.can("chat.retry")) return void this.#write(item.text, item.images);
    this.#conversation.follow();
    this.gateway.session.retry(item);
    this.focus();
  }

  /** Restore files as they were before a run; returns why some were not, or "". */
  async #undo(turn, files) {
    const problems = [];
    for (const path of new Set(files.map((file) => file.path))) {
      const { refused = [] } = await this.gateway.request("files.undo", { turn, path });
      problems.push(...refused.map(({ reason }) => `${path}: ${reason}`));
    }
    return problems.join(" ");
  }

  /** Take back a message that waits, to be written anew. */
  async #takeBack({ key, text, images }) {
    if (await this.gateway.session.takeBack(key)) this.#composer.putBack(text, images);
    this.focus();
  }

  #write(text, images) {
    this.#conversation.follow();
    this.gateway.session.write(text, images);
    this.focus(); // the button that was pressed may be gone
  }

  /** Draw once per frame, however much has changed. */
  #draw() {
    if (this.#drawing) return;
    this.#drawing = true;
    const draw = () => {
      this.#drawing = false;
      this.#paint();
    };
    if (document.hidden) setTimeout(draw, 100); // no frames there, but marks and titles
    else requestAnimationFrame(draw);
  }

  #paint() {
    const { gateway } = this;
    const { phase, hello, model, session, markdown } = gateway;
    const { conversation, problem, preparing, loaded } = session;
    if (["online", "offline"].includes(phase.phase)) this.#show("chat");
    gateway.look();
    const items = view(conversation);
    const { row } = gateway;
    status.showAgent(hello, session.key, gateway.names);
    status.showConnection(phase, gateway.stopping);
    status.showModel(model);
    status.showNotice(gateway, problem);
    this.#taint.render(gateway);
    status.showTitle(row, session.key);
    status.showSpent(row, items, conversation.more);
    this.#list.render(gateway);
    showPanels(gateway);
    for (const panel of this.#panels.values()) panel.render?.();
    status.showApprovals(gateway.approvals);
    this.undelivered.render();
    if (!preparing) this.#conversation.render(session.key, items, loaded, markdown, gateway.approvals);
    byId("earlier").hidden = !conversation.more;
    byId("memory").hidden = !gateway.can("memory.search");
    byId("usage").hidden = !gateway.can("usage.cost");
    byId("channels").hidden = !gateway.can("channels.restart");
    byId("tools").hidden = !gateway.can("tools.list");
    byId("schedule").hidden = !gateway.can("cron.list");
    for (const card of CARDS) card.parentElement.hidden = byId(card.dataset.opens).hidden;
    byId("download").hidden = conversation.items.length === 0;
    this.#composer.render({
      commands: gateway.commands,
      models: () => gateway.models(),
      images: model?.model?.input?.includes("image") ?? false,
      policy: hello?.policy,
      working: Boolean(working(conversation)) && phase.phase === "online",
    });
    this.#announce(session.key, loaded, items);
  }

  /** Tell a screen reader of an answer once, when it is whole. */
  #announce(session, loaded, items) {
    const last = items.at(-1);
    const told = last?.kind === "answer" && last.state !== "writing" ? last : null;
    const name = `${session} ${told?.id}`;
    const isNew = this.#announced.startsWith(`${session} `) && name !== this.#announced;
    if (loaded && told && isNew) setText(byId("announce"), told.text || told.problem);
    if (loaded && (told || !this.#announced.startsWith(`${session} `))) this.#announced = name;
  }
}

const { token } = here();
hideToken();
const fresh = token?.trim() || triedToken.load();
new Page().start(fresh || keptToken(), Boolean(fresh));
