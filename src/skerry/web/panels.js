// Panels that plugins add: a button each, and a dialog that the module of the plugin fills.

import { byId, make } from "./dom.js";
import { toast } from "./toast.js";

let shown = null; // the panels whose buttons are there

/** Show a button for each panel, where they changed. */
export function showPanels(gateway) {
  if (gateway.panels === shown) return;
  shown = gateway.panels;
  byId("panels").hidden = shown.length === 0;
  byId("panels").replaceChildren(
    ...shown.map((panel) => {
      const button = make("button", { className: "quiet", type: "button" }, panel.title);
      button.addEventListener("click", () => void open(gateway, panel));
      return button;
    }),
  );
}

/** Import the module of the panel, and let it fill a dialog until that is closed. */
async function open(gateway, { title, url }) {
  try {
    const { panel } = await import(url);
    const content = make("div");
    const row = make("div", { className: "row end" }, make("button", { className: "primary" }, "Close"));
    const form = make("form", { method: "dialog" }, row);
    const dialog = make("dialog", { className: "setup", ariaLabel: title }, make("h2", {}, title), content, form);
    const ends = [];
    dialog.addEventListener("close", () => {
      for (const end of ends) end?.();
      dialog.remove();
    });
    document.body.append(dialog);
    dialog.showModal();
    ends.push(
      await panel(content, {
        request: (method, params) => gateway.request(method, params),
        on: (event, callback) => void ends.push(gateway.on(event, callback)),
      }),
    );
    if (!dialog.isConnected) ends.at(-1)?.();
  } catch (error) {
    toast(`${title}: ${error.message}`);
  }
}
