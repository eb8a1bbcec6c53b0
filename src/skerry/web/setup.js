// The panel in which a person enters a key or another model.

import { byId, make, setText } from "./dom.js";
import { Offered } from "./offered.js";
import { toast } from "./toast.js";
import { Tune } from "./tune.js";

// `id` is what the gateway calls it: null where a person names it, "" to let the gateway choose.
const PROVIDERS = [
  { id: "openai", label: "OpenAI", needsKey: true },
  { id: "anthropic", label: "Anthropic", needsKey: true },
  { id: "openrouter", label: "OpenRouter", needsKey: true },
  { id: "gemini", label: "Google Gemini", needsKey: true },
  { id: "groq", label: "Groq", needsKey: true },
  { id: "mistral", label: "Mistral", needsKey: true },
  { id: "deepseek", label: "DeepSeek", needsKey: true },
  { id: "xai", label: "xAI", needsKey: true },
  { id: "together", label: "Together", needsKey: true },
  { id: "cerebras", label: "Cerebras", needsKey: true },
  { id: "ollama", label: "Ollama, on this machine", url: "http://127.0.0.1:11434/v1" },
  { id: "lmstudio", label: "LM Studio, on this machine", url: "http://127.0.0.1:1234/v1" },
  { id: "llamacpp", label: "llama.cpp, on this machine", url: "http://127.0.0.1:8080/v1" },
  {
    id: null,
    label: "Another service (OpenAI-compatible)",
    url: "",
    help: "Any service with OpenAI's chat completions. Its address usually ends in /v1.",
  },
  {
    id: "",
    label: "Choose automatically",
    help: "A key in the environment, else a local server that answers, else the demonstration.",
  },
];

/** The dialog. `page` has `gateway`, the one there is now. */
export class Panel {
  #dialog = byId("setup");
  #provider = byId("setup-provider");
  #tune;
  #offered;

  constructor(page) {
    this.page = page;
    this.#tune = new Tune(() => page.gateway);
    this.#offered = new Offered(
      () => page.gateway,
      () => this.#entered(),
    );
    this.#provider.append(...PROVIDERS.map(({ label }) => make("option", {}, label)));
    this.#provider.addEventListener("change", () => this.#arrange());
    byId("setup-close").addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("close", () => this.#forget());
    byId("setup-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#save(false);
    });
    byId("setup-insist").addEventListener("click", () => {
      if (byId("setup-form").reportValidity()) this.#save(true);
    });
    byId("setup-form").addEventListener("input", () => (byId("setup-insist").hidden = true));
    this.#arrange();
  }

  /** Open it. */
  open() {
    this.#describe(this.page.gateway.model);
    this.#preselect(this.page.gateway.model?.model?.provider);
    this.#dialog.showModal();
    this.#tune.show();
  }

  /** Begin with the provider that answers now, where it is one of the list. */
  #preselect(used) {
    const place = PROVIDERS.findIndex(({ id }) => id && id === (used === "google" ? "gemini" : used));
    if (place >= 0) this.#provider.selectedIndex = place;
    this.#arrange();
  }

  get #chosen() {
    return PROVIDERS[this.#provider.selectedIndex];
  }

  #arrange() {
    const { id, url, needsKey = false, help = "" } = this.#chosen;
    const [isNamed, hasUrl, hasModel] = [id === null, url !== undefined, id !== ""];
    this.#field("name", isNamed, isNamed);
    this.#field("url", hasUrl, hasUrl);
    this.#field("key", needsKey || isNamed, false);
    this.#field("model", hasModel, hasUrl);
    byId("setup-url").value = url ?? "";
    byId("setup-model").placeholder = hasUrl ? "" : "empty: the provider's default";
    setText(byId("setup-help"), help);
    byId("setup-insist").hidden = true;
    this.#offered.clear();
    this.#result("", "");
  }

  /** Show a field or not. What stood in it is gone: a key is not for another service. */
  #field(name, isShown, isRequired) {
    byId(`setup-${name}-field`).hidden = !isShown;
    byId(`setup-${name}`).required = isRequired;
    byId(`setup-${name}`).value = "";
  }

  /** Return the provider of the model, from the fields. */
  #entered() {
    return {
      provider: this.#chosen.id ?? byId("setup-name").value.trim(),
      apiKey: byId("setup-key").value.trim(),
      baseUrl: byId("setup-url").value.trim(),
    };
  }

  /** Use what was entered, once it has answered a first call; `untried` goes without that. */
  async #save(untried) {
    const values = { ...this.#entered(), model: byId("setup-model").value.trim() };
    if (untried) values.untried = true;
    const button = byId("setup-save");
    const insist = byId("setup-insist");
    button.disabled = insist.disabled = true;
    this.#result("", untried ? "Saving the choice" : "Testing the model with one short question");
    try {
      const status = await this.page.gateway.configure(values);
      this.#describe(status);
      if (status.state === "unavailable") this.#result("bad", status.message, status.remedy);
      else {
        this.#dialog.close();
        const { latencyMs: took, model } = status;
        if (took !== undefined) toast(`${model.name || model.id} answered in ${seconds(took)}.`);
      }
    } catch (error) {
      this.#result("bad", error.message, error.details?.remedy);
      insist.hidden = untried || !error.details?.code?.startsWith("model.");
    } finally {
      button.disabled = insist.disabled = false;
    }
  }

  #describe(status) {
    const name = status?.model ? status.model.name || status.model.id : "none";
    setText(byId("setup-now"), `Answers now: ${name}`);
    byId("setup-offers").replaceChildren(...(status?.offers ?? []).map((one) => this.#offer(one)));
  }

  /** Return the line of a local model server that was found, with a button that confirms it. */
  #offer({ id, name, message }) {
    const button = make("button", { type: "button", className: "quiet" }, `Use ${name}`);
    button.addEventListener("click", async () => {
      try {
        this.#describe(await this.page.gateway.trust(id));
      } catch (error) {
        this.#result("bad", error.message);
      }
    });
    return make("li", {}, message, " ", button);
  }

  #result(kind, ...sentences) {
    const place = byId("setup-result");
    place.dataset.kind = kind;
    setText(place, sentences.filter(Boolean).join(" "));
  }

  /** Leave no key behind in the document. */
  #forget() {
    byId("setup-key").value = "";
    byId("setup-insist").hidden = true;
    this.#result("", "");
  }
}

function seconds(milliseconds) {
  return milliseconds < 100 ? "less than 0.1 s" : `${(milliseconds / 1000).toFixed(1)} s`;
}
