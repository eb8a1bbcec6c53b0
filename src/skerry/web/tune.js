// The choice of model and thinking for one conversation, in the panel of models.

import { byId, make, setText } from "./dom.js";

const LEVELS = [
  ["", "As configured"],
  ["off", "Off"],
  ["minimal", "Minimal"],
  ["low", "Low"],
  ["medium", "Medium"],
  ["high", "High"],
  ["xhigh", "Highest"],
];

/** The choice. `gateway()` returns the one there is now. */
export class Tune {
  #key = "";

  constructor(gateway) {
    this.gateway = gateway;
    byId("tune-thinking").append(...LEVELS.map(([value, label]) => make("option", { value }, label)));
    byId("tune-model").addEventListener("change", ({ target }) => this.#patch({ model: target.value || null }));
    byId("tune-thinking").addEventListener("change", ({ target }) =>
      this.#patch({ thinkingLevel: target.value || null }),
    );
  }

  /** Show what the conversation that is shown has; hidden where the gateway cannot change it. */
  async show() {
    const gateway = this.gateway();
    const row = gateway.list.rows.find((one) => gateway.isShown(one));
    this.#key = row?.key ?? gateway.fullKey(gateway.session.key); // a new one begins with the choice
    byId("tune").hidden = !gateway.can("sessions.patch");
    if (byId("tune").hidden) return;
    setText(byId("tune-result"), "");
    byId("tune-thinking").value = row?.thinkingLevel ?? "";
    const models = await gateway.models();
    byId("tune-model-field").hidden = models.length === 0;
    byId("tune-model").replaceChildren(
      make("option", { value: "" }, "The default model"),
      ...models.map(({ id, name, provider }) =>
        make("option", { value: `${provider}/${id}` }, `${name} (${provider})`),
      ),
    );
    const { modelOverride, providerOverride } = row ?? {};
    byId("tune-model").value = modelOverride ? `${providerOverride}/${modelOverride}` : "";
    if (byId("tune-model").selectedIndex < 0) byId("tune-model").selectedIndex = 0;
  }

  async #patch(change) {
    const gateway = this.gateway();
    const place = byId("tune-result");
    try {
      await gateway.request("sessions.patch", { key: this.#key, ...change });
      place.dataset.kind = "good";
      setText(place, "Saved for this conversation.");
      gateway.refreshList();
    } catch (error) {
      await this.show(); // as it was
      place.dataset.kind = "bad";
      setText(place, error.message);
    }
  }
}
