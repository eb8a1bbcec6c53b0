// The form that enters the credentials of an account, in the panel of channels.

import { make, setText } from "./dom.js";
import { elsewhere } from "./login.js";

/**
 * Return the form and the function that ends a login under way; `page` has `gateway`, and `done()`
 * is called after an account was entered.
 */
export function accountForm(page, done) {
  const platform = make("select", { name: "platform" });
  const account = make("input", { name: "account", placeholder: "default", pattern: "[a-z0-9][a-z0-9_\\-]{0,31}", title: "Small letters, digits, - and _" });
  const secrets = make("div", { className: "stack" });
  const told = make("p", { className: "help", role: "status" });
  const form = make(
    "form",
    { className: "stack", autocomplete: "off" },
    make("label", {}, "Platform", platform),
    make("label", {}, "Name of the account, where there are several", account),
    secrets,
    make("p", { className: "help" }, "They are written to the gateway's configuration file and not stored in this browser."),
    make("div", { className: "row end" }, make("button", { className: "quiet" }, "Connect")),
    told,
  );
  const details = make("details", {}, make("summary", {}, "Add an account, or enter new credentials"), form);
  const target = () => ({ channel: platform.value, ...(account.value.trim() ? { accountId: account.value.trim() } : {}) });
  const others = elsewhere(page, target, done);
  details.append(others.root);
  const known = new Map(); // what each platform asks for

  const ask = () => {
    const fields = (known.get(platform.value)?.login ?? []).map(({ key, question }) =>
      make("label", {}, question, make("input", { type: "password", name: key, required: true, autocomplete: "off", spellcheck: false })),
    );
    secrets.replaceChildren(...fields);
    others.ask(known.get(platform.value)?.elsewhere ?? []);
  };
  platform.addEventListener("change", ask);
  details.addEventListener("toggle", async () => {
    if (!details.open || known.size > 0) return;
    try {
      const { platforms } = await page.gateway.request("channels.platforms", {});
      for (const row of platforms) known.set(row.channel, row);
      platform.replaceChildren(...platforms.map(({ channel, label }) => make("option", { value: channel }, label)));
      ask();
    } catch (error) {
      setText(told, error.message);
    }
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const credentials = Object.fromEntries([...secrets.querySelectorAll("input")].map(({ name, value }) => [name, value]));
    try {
      await page.gateway.request("channels.login", { ...target(), credentials });
      setText(told, "Saved. The state of the account is above.");
      ask();
    } catch (error) {
      setText(told, error.message);
    }
    await done();
  });
  return { root: details, end: others.end };
}
