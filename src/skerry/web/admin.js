// The question for administrator rights, asked when something needs them.

import { byId, setText } from "./dom.js";

const ACTS = {
  "agents.": "Changing agents",
  "channels.pairing.": "Approving senders",
  "channels.": "Changing channels",
  "chat.send": "This command",
  "config.": "Changing the configuration",
  "cron.": "Changing the schedule",
  "files.undo": "Undoing a change of files",
  "files.get": "Reading a file of the workspace",
  "files.": "Trusting a file",
  "memory.save": "Saving a file as its owner",
  "memory.": "Erasing text from the memory",
  "models.": "Changing the model",
  "outbox.": "Changing the outbox",
  "set-heartbeats": "Changing heartbeats",
  "sessions.delete": "Deleting a conversation",
  "sessions.taint": "Clearing the text from others",
  "sessions.patch": "Changing a conversation's settings",
  "sessions.": "Changing conversations",
};

/** Ask whether this tab may do what `method` does; return the answer. */
export function ask(method) {
  const dialog = byId("admin");
  const [, act = "This"] = Object.entries(ACTS).find(([start]) => method.startsWith(start)) ?? [];
  setText(byId("admin-text"), `${act} needs administrator rights for this browser. Allow in this tab?`);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "allow"), { once: true });
  });
}
