// Messages of the gateway to the model: outcomes of calls, and reports of sub-agents. No DOM.

const KEY = /^approval-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/;
const MESSAGE = /^The call of the tool (.{1,200}?) that waited for approval \(id [0-9a-f]{8}\) (was .*?)$/ms;
const REPORT_KEY = /^announce-subagent-/;
const REPORT = /^A sub-agent(?: ['"](.{1,200}?)['"])? that you started has ended\. Status: (.{1,80}?)\.$/ms;
const FENCED = /^<(untrusted-result id="[^"\n]{1,80}")>\n(.*?)\n\n(.*)\n<\/\1>$/s;
const REPORT_TEXT = /^<(untrusted-report id="[^"\n]{1,80}")>\n(.*?)\n\n(.*)\n<\/\1>$/ms;
const WAYS = [
  ["was approved and has ended", "done", "Approved; it ran once and ended"],
  ["was approved and has failed", "failed", "Approved; it ran once and failed"],
  ["was approved and had begun", "unknown", "Approved; it had begun when the gateway stopped, and is not repeated"],
  ["was denied", "denied", "Denied; it did not run"],
  ["was not approved in time", "expired", "Not approved in time; it did not run"],
];

/**
 * Return the outcome that a message contains, or undefined. `key` is the id of the message's run. It has
 *   title     kind of the message, for its heading
 *   approval  id of the approval, if a call waited for one
 *   tool      name of the tool, or of the sub-agent
 *   folded    true when the page shows the text on request only
 *   how       done, failed, unknown, denied or expired
 *   words     the same for a person
 *   result    what the call returned, without the marks that it has for the model
 *   suspect   why that looks like instructions; "" where it does not
 */
export function outcomeOf(key, text) {
  if (REPORT_KEY.test(key)) return reportOf(text);
  const approval = KEY.exec(key)?.[1];
  const [, tool, rest] = (approval && MESSAGE.exec(text)) ?? [];
  const way = rest && WAYS.find(([begin]) => rest.startsWith(begin));
  if (!way) return undefined;
  const [, how, words] = way;
  const told = text.slice(text.indexOf("\n") + 1 || text.length);
  const [, , about = "", result = told] = FENCED.exec(told) ?? [];
  return { title: "Outcome of a call", approval, tool, how, words, result, suspect: suspicionIn(about) };
}

function reportOf(text) {
  const [, name = "sub-agent", status] = REPORT.exec(text) ?? [];
  if (!status) return undefined;
  const [, , about = "", result = ""] = REPORT_TEXT.exec(text) ?? [];
  const how = status === "success" ? "done" : "failed";
  const words = `A sub-agent has ended: ${status}`;
  return { title: "Report of a sub-agent", tool: name, how, words, result, suspect: suspicionIn(about), folded: true };
}

/** Return why a text looks like instructions, of what the model reads about it; "" if it does not. */
function suspicionIn(about) {
  const suspect = /tried to instruct you(?: \(([^)\n]*)\))?/.exec(about);
  return suspect ? suspect[1] || "no reason given" : "";
}
