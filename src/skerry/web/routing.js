// The question which agent answers a conversation of a platform, in the panel of channels.

import { make, setText } from "./dom.js";

/** Return the form; `page` has `gateway`, the one there is now. */
export function routingForm(page) {
  const channel = make("input", { name: "channel", required: true, placeholder: "telegram" });
  const peer = make("input", { name: "peer", required: true, placeholder: "group:-1001234" });
  const account = make("input", { name: "account", placeholder: "default" });
  const answer = make("p", { className: "help", role: "status", dir: "auto" });
  const form = make(
    "form",
    { className: "stack" },
    make("label", {}, "Channel", channel),
    make("label", {}, "Conversation (kind:id)", peer),
    make("label", {}, "Account", account),
    make("div", { className: "row end" }, make("button", { className: "quiet" }, "Who answers?")),
    answer,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const params = { channel: channel.value.trim(), peer: peer.value.trim() };
    if (account.value.trim()) params.accountId = account.value.trim();
    try {
      const { agentId, sessionKey, matchedBy } = await page.gateway.request("routing.explain", params);
      setText(answer, `${agentId} answers in ${sessionKey} (${matchedBy}).`);
    } catch (error) {
      setText(answer, error.message);
    }
  });
  return make("details", {}, make("summary", {}, "Which agent answers"), form);
}
