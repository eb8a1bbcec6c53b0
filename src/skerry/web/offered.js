// The models that a provider says it has, offered while one types the name of one.

import { byId, make, setText } from "./dom.js";

/** The list behind the field. `entered()` returns the provider, key and address that stand there. */
export class Offered {
  #button = byId("setup-offered");
  #asked = 0;

  constructor(gateway, entered) {
    this.gateway = gateway;
    this.entered = entered;
    this.#button.addEventListener("click", () => this.#ask());
  }

  /** Forget the list: another provider was chosen. An older gateway has none. */
  clear() {
    this.#asked += 1;
    byId("setup-models").replaceChildren();
    setText(byId("setup-models-help"), "");
    this.#button.hidden = !this.gateway()?.can("models.offered");
    this.#button.disabled = false;
  }

  async #ask() {
    const asked = ++this.#asked;
    this.#button.disabled = true;
    setText(byId("setup-models-help"), "Loading the list of models");
    try {
      const answer = await this.gateway().request("models.offered", this.entered());
      if (asked === this.#asked) this.#show(answer);
    } catch (error) {
      if (asked === this.#asked) setText(byId("setup-models-help"), error.message);
    } finally {
      if (asked === this.#asked) this.#button.disabled = false;
    }
  }

  #show({ models, problems }) {
    const options = models.map((model) => make("option", { value: model.id }, facts(model)));
    byId("setup-models").replaceChildren(...options);
    const count = models.length === 1 ? "1 model" : `${models.length} models`;
    const known = problems.length ? `${count} known here` : `${count}`;
    const found = models.length ? `${known}: choose one in the field, or type its name.` : "No model is known.";
    setText(byId("setup-models-help"), [...problems, found].join(" "));
    if (models.length) byId("setup-model").focus();
    byId("setup-models-help").scrollIntoView({ block: "nearest" });
  }
}

/** Return what is known of a model in some words, such as `GPT-5, 400k tokens, images`. */
function facts({ id, name, contextWindow, input }) {
  const words = name === id ? [] : [name];
  if (contextWindow) words.push(`${Math.round(contextWindow / 1000)}k tokens`);
  if (input.includes("image")) words.push("images");
  return words.join(", ");
}
