// The panel in which a person enters a key or another model.

import { byId, make, setText } from "./dom.js";

const PROVIDERS = [
  { id: "openai", label: "OpenAI", key: true, example: "gpt-5-mini" },
  { id: "anthropic", label: "Anthropic", key: true, example: "claude-sonnet-4-5" },
  { id: "gemini", label: "Google Gemini", key: true, example: "gemini-2.5-flash" },
  { id: "openrouter", label: "OpenRouter", key: true, example: "openai/gpt-5-mini" },
  { id: "groq", label: "Groq", key: true, example: "llama-3.3-70b-versatile" },
  { id: "mistral", label: "Mistral", key: true, example: "mistral-small-latest" },
  { id: "deepseek", label: "DeepSeek", key: true, example: "deepseek-chat" },
  {
    id: "local",
    label: "A server on this machine",
    url: "http://127.0.0.1:11434/v1",
    example: "llama3.2",
    help: "Ollama, LM Studio or llama.cpp. The address ends in /v1.",
  },
  {
    id: "",
    label: "Another service (OpenAI-compatible)",
    key: true,
    url: "",
    named: true,
    example: "",
    help: "Any service that offers the OpenAI chat completions format.",
  },
];

/** The dialog. `configure(values)` does the request and returns the new model status. */
export class SetupPanel {
  #dialog = byId("setup");
  #provider = byId("setup-provider");

  constructor(configure) {
    this.configure = configure;
    this.#provider.append(
      ...PROVIDERS.map(({ id, label }) => make("option", { value: id }, label)),
    );
    this.#provider.addEventListener("change", () => this.#arrange());
    byId("setup-close").addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("close", () => this.#forget());
    byId("setup-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#save();
    });
    this.#arrange();
  }

  /** Open it; `status` is the model status that is shown as the present one. */
  open(status) {
    this.#describe(status);
    this.#dialog.showModal();
  }

  get #chosen() {
    return PROVIDERS.find(({ id }) => id === this.#provider.value);
  }

  #arrange() {
    const { key, url, named, example, help = "" } = this.#chosen;
    byId("setup-key-field").hidden = !key;
    byId("setup-key").required = key === true && !named;
    byId("setup-url-field").hidden = url === undefined;
    byId("setup-url").required = url !== undefined;
    byId("setup-url").value = url ?? "";
    byId("setup-name-field").hidden = !named;
    byId("setup-name").required = named === true;
    byId("setup-key").value = ""; // one service's key is not sent to another
    byId("setup-model").value = "";
    byId("setup-model").placeholder = example ? `for example ${example}` : "";
    setText(byId("setup-help"), help);
    this.#result("", "");
  }

  async #save() {
    const { id, url, named } = this.#chosen;
    const values = {
      provider: named ? byId("setup-name").value.trim() : id,
      model: byId("setup-model").value.trim(),
      apiKey: byId("setup-key").value.trim(),
      baseUrl: url === undefined ? "" : byId("setup-url").value.trim(),
    };
    const button = byId("setup-save");
    button.disabled = true;
    this.#result("", "Trying it");
    try {
      const status = await this.configure(values);
      this.#describe(status);
      if (status.state === "unavailable") this.#result("bad", status.message, status.remedy);
      else this.#dialog.close();
    } catch (error) {
      this.#result("bad", error.message, error.details?.remedy);
    } finally {
      button.disabled = false;
    }
  }

  #describe(status) {
    const name = status?.model ? `${status.model.name || status.model.id}` : "none";
    setText(byId("setup-now"), `Answers now: ${name}`);
  }

  #result(kind, ...sentences) {
    const place = byId("setup-result");
    place.dataset.kind = kind;
    setText(place, sentences.filter(Boolean).join(" "));
  }

  /** Leave no key behind in the document. */
  #forget() {
    byId("setup-key").value = "";
    this.#result("", "");
  }
}
