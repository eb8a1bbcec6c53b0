// The panel of the pond: how many frogs leapt.

import { line } from "./words.js";

export async function panel(element, gateway) {
  const text = document.createElement("p");
  element.append(text);
  const show = async () => {
    const { leaps } = await gateway.request("pond.leaps", {});
    text.textContent = line(leaps);
  };
  gateway.on("pond.leapt", show);
  await show();
}
