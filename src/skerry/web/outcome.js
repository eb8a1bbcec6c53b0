// Messages in which the gateway tells how a call ended whose run had gone on without it. No DOM.

const KEY = /^approval-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/;
const MESSAGE = /^The call of the tool (.{1,200}?) that waited for approval \(id [0-9a-f]{8}\) (was .*?)$/ms;
const FENCED = /^<(untrusted-result id="[^"\n]{1,80}")>\n(.*?)\n\n(.*)\n<\/\1>$/s;
const WAYS = [
  ["was approved and has ended", "done", "Approved; it ran once and ended"],
  ["was approved and has failed", "failed", "Approved; it ran once and failed"],
  ["was approved and had begun", "unknown", "Approved; it had begun when the gateway stopped, and is not repeated"],
  ["was denied", "denied", "Denied; it did not run"],
  ["was not approved in time", "expired", "Not approved in time; it did not run"],
];

/**
 * Return the outcome that a message tells, or undefined. `key` is the id of the message's run. It has
 *   approval  id of the approval
 *   tool      name of the tool
 *   how       done, failed, unknown, denied or expired
 *   words     the same for a person
 *   result    what the call returned, without the marks that it has for the model
 *   suspect   why that looks like instructions; "" where it does not
 */
export function outcomeOf(key, text) {
  const approval = KEY.exec(key)?.[1];
  const [, tool, rest] = (approval && MESSAGE.exec(text)) ?? [];
  const way = rest && WAYS.find(([begin]) => rest.startsWith(begin));
  if (!way) return undefined;
  const [, how, words] = way;
  const told = text.slice(text.indexOf("\n") + 1 || text.length);
  const [, , about = "", result = told] = FENCED.exec(told) ?? [];
  const suspect = /tried to instruct you(?: \(([^)\n]*)\))?/.exec(about);
  return { approval, tool, how, words, result, suspect: suspect ? suspect[1] || "no reason given" : "" };
}
