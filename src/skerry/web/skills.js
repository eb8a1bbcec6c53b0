// The skills of the conversation's agent, in the panel of tools.

import { make } from "./dom.js";

/** Return the list of skills; `page` has `gateway`, the one there is now. */
export async function skillList({ gateway }) {
  const status = await gateway.request("skills.status", { sessionKey: gateway.session.key });
  const { skills, faults = [], workspaceDir } = status;
  const listed = skills.filter(({ blockedByAllowlist }) => !blockedByAllowlist);
  const usable = listed.filter(({ eligible }) => eligible).length;
  const rows = [...listed.map(row), ...faults.map(broken)];
  const title = make("summary", {}, `Skills (${usable} of ${listed.length} can be used)`);
  if (rows.length > 0) return make("details", {}, title, make("ul", { className: "questions" }, ...rows));
  const file = make("code", {}, `${workspaceDir}/skills/NAME/SKILL.md`);
  return make("details", {}, make("summary", {}, "Skills (none)"), help("Write ", file, " to add a skill: instructions that the agent reads when a request fits."));
}

function row({ name, description, tier, eligible, command, missing, disabledBy, doubt, install = [] }) {
  const lacking = Object.values(missing).flat();
  const reasons = [
    disabledBy && `Switched off by ${disabledBy}.`,
    doubt && `Its text is not yours: ${doubt}.`,
    lacking.length > 0 && `Missing: ${lacking.join(", ")}.`,
    lacking.length > 0 && install.length > 0 && `Run: skerry skills setup ${name}`,
  ].filter(Boolean);
  const use = command ? [" ", make("code", {}, `/${command}`)] : [];
  return make(
    "li",
    {},
    make("p", {}, make("strong", {}, name), ...use, make("span", { className: "state" }, ` ${tier}${eligible ? "" : ", not used"}`)),
    help(description),
    ...reasons.map((reason) => help(reason)),
  );
}

function broken({ path, problem, remedy }) {
  return make("li", {}, make("p", {}, make("strong", {}, path.split("/").at(-1)), " is broken"), help(problem, " ", remedy));
}

function help(...content) {
  return make("p", { className: "help", dir: "auto" }, ...content);
}
