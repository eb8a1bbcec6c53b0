"""The skills of an agent in the form of `skills.status`."""

from collections.abc import Iterable
from typing import Any, Final

from skerry.config.root import Config
from skerry.gateway.frames import Json
from skerry.model.ids import AgentId
from skerry.model.skill import InstallSpec, Skill, SkillFault, SkillSet, Tier
from skerry.workspace.skill_commands import SKILL, skill_commands

SOURCES: Final = {
    Tier.WORKSPACE: "openclaw-workspace",
    Tier.MANAGED: "openclaw-managed",
    Tier.BUNDLED: "openclaw-bundled",
    Tier.EXTRA: "openclaw-extra",
}
"""Values of `source` by which clients group skills."""


def status(
    skills: SkillSet, config: Config, agent: AgentId, reserved: Iterable[str] = (SKILL,)
) -> dict[str, Any]:
    """Returns the skills, the hidden ones, and the folders that are refused.

    Args:
        skills: The skills of the agent.
        config: The present configuration.
        agent: The agent.
        reserved: Names of commands that no skill may have.

    """
    commands = {
        command.skill.name: name for name, command in skill_commands(skills, reserved).items()
    }
    return {
        "workspaceDir": str(config.workspace(agent)),
        "managedSkillsDir": str(config.state_dir / "skills"),
        "agentId": agent,
        "skills": [_row(skill, commands.get(skill.name, "")) for skill in skills.skills],
        "hidden": [_hidden(skill, skills) for skill in skills.hidden],
        "faults": [_fault(fault) for fault in skills.faults],
    }


def _row(skill: Skill, command: str) -> dict[str, Json]:
    requires = {kind: list(names) for kind, names in skill.requires}
    unmet = dict(skill.unmet)
    return {
        "name": skill.name,
        "description": skill.description,
        "source": SOURCES.get(skill.tier, f"plugin {skill.plugin}"),
        "tier": skill.tier.value,
        "bundled": skill.tier is Tier.BUNDLED,
        "filePath": str(skill.location),
        "baseDir": str(skill.folder),
        "skillKey": skill.entry,
        "primaryEnv": skill.primary_env,
        "emoji": skill.emoji,
        "homepage": skill.homepage,
        "always": skill.is_always,
        "disabled": skill.off.startswith("skills.entries."),
        "blockedByAllowlist": skill.off == "skills.allowBundled",
        "disabledBy": skill.off,
        "doubt": skill.doubt,
        "eligible": skill.is_eligible,
        "modelInvocable": skill.is_listed,
        "userInvocable": skill.is_invocable,
        "command": command,
        "commandTool": skill.tool,
        "requirements": requires,
        "missing": {kind: list(unmet.get(kind, ())) for kind in requires},
        "configChecks": [
            {"path": path, "satisfied": path not in unmet.get("config", ())}
            for path in requires.get("config", ())
        ],
        "install": [_install(spec) for spec in skill.install],
    }


def _install(spec: InstallSpec) -> Json:
    label = spec.label or f"Install {spec.package or spec.url} ({spec.kind})"
    return {
        "id": spec.id,
        "kind": spec.kind,
        "label": label,
        "bins": list(spec.bins),
        "os": list(spec.os),
        "package": spec.package,
        "url": spec.url,
    }


def _hidden(skill: Skill, skills: SkillSet) -> Json:
    used = skills.find(skill.name)
    return {
        "name": skill.name,
        "tier": skill.tier.value,
        "filePath": str(skill.location),
        "hiddenBy": str(used.location) if used is not None else "",
    }


def _fault(fault: SkillFault) -> Json:
    return {
        "tier": fault.tier.value,
        "path": str(fault.path),
        "problem": fault.problem,
        "remedy": fault.remedy,
    }
