// The form that enters the credentials of an account, in the panel of channels.

import { make, setText } from "./dom.js";

/** Return the form; `page` has `gateway`, and `done()` is called after an account was entered. */
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
  const known = new Map(); // what each platform asks for

  const ask = () => {
    const fields = (known.get(platform.value) ?? []).map(({ key, question }) =>
      make("label", {}, question, make("input", { type: "password", name: key, required: true, autocomplete: "off", spellcheck: false })),
    );
    secrets.replaceChildren(...fields);
  };
  platform.addEventListener("change", ask);
  details.addEventListener("toggle", async () => {
    if (!details.open || known.size > 0) return;
    try {
      const { platforms } = await page.gateway.request("channels.platforms", {});
      for (const { channel, login } of platforms) known.set(channel, login);
      platform.replaceChildren(...platforms.map(({ channel, label }) => make("option", { value: channel }, label)));
      ask();
    } catch (error) {
      setText(told, error.message);
    }
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const credentials = Object.fromEntries([...secrets.querySelectorAll("input")].map(({ name, value }) => [name, value]));
    const params = { channel: platform.value, credentials };
    if (account.value.trim()) params.accountId = account.value.trim();
    try {
      await page.gateway.request("channels.login", params);
      setText(told, "Entered. The state of the account is above.");
      ask();
    } catch (error) {
      setText(told, error.message);
    }
    await done();
  });
  return details;
}
