// The archived conversations: restored, or saved as a file.

import { byId, make, when } from "./dom.js";
import { save } from "./export.js";
import { titleOf } from "./list.js";
import { toast } from "./toast.js";

const MOST = 50;
const REASONS = { reset: "reset", deleted: "deleted" };

/** Fill the list; `restore(row)` restores one. */
export async function showArchive(gateway, restore) {
  const params = { archived: true, limit: MOST, includeDerivedTitles: true };
  const { sessions, hasMore } = await gateway.request("sessions.list", params);
  const rows = sessions.map((row) => make("li", {}, ...about(row), ...acts(gateway, row, restore)));
  if (hasMore) rows.push(make("li", {}, "Older conversations are listed by: skerry sessions list --archived"));
  if (rows.length === 0) {
    rows.push(make("li", {}, "Deleted and reset conversations are kept here for a while."));
  }
  byId("archive").querySelector("ul").replaceChildren(...rows);
}

function about(row) {
  const name = make("span", { className: "name", dir: "auto" }, titleOf(row));
  const told = [REASONS[row.archivedAs] ?? row.archivedAs, when(row.archivedAt)];
  return [name, make("div", {}, told.filter(Boolean).join(", "))];
}

function acts(gateway, row, restore) {
  const made = [
    ["Restore", () => restore(row)],
    ["Download", () => download(gateway, row)],
  ];
  return made.flatMap(([text, onclick]) => {
    const ariaLabel = `${text}: ${titleOf(row)}`;
    return [make("button", { type: "button", className: "quiet", ariaLabel, onclick }, text), " "];
  });
}

async function download(gateway, { key, sessionId, ...row }) {
  try {
    const messages = [];
    for (let more = true; more; ) {
      const params = { sessionKey: key, sessionId, limit: 500, offset: messages.length, maxChars: 500_000 };
      const part = await gateway.request("chat.history", params);
      messages.unshift(...(part.messages ?? []));
      more = part.hasMore === true && part.messages.length > 0;
    }
    save(titleOf({ key, ...row }), messages);
  } catch (error) {
    toast(error.message);
  }
}
