"""The method `skills.status`: lists the skills of an agent."""

from typing import Final

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params
from skerry.model.skill import Skill


class SkillsStatusParams(Params):
    """Parameters of `skills.status`."""

    agent_id: Name | None = None
    session_key: Name | None = None


def skills_status(call: Call, params: SkillsStatusParams) -> Json:
    """Returns the skills of an agent, and those with unmet requirements."""
    config = call.context.config()
    agent = call.session_key(params.session_key, params.agent_id).agent
    skills = call.context.plugins.skills if call.context.plugins else {}
    return {
        "workspaceDir": str(config.workspace(agent)),
        "managedSkillsDir": str(config.state_dir / "skills"),
        "agentId": agent,
        "skills": [_row(skill) for skill in skills.values()],
    }


def _row(skill: Skill) -> Json:
    requires = {kind: list(names) for kind, names in skill.requires}
    unmet = dict(skill.unmet)
    return {
        "name": skill.name,
        "description": skill.description,
        "source": f"plugin {skill.plugin}",
        "bundled": False,
        "filePath": str(skill.location),
        "baseDir": str(skill.folder),
        "skillKey": skill.name,
        "emoji": skill.emoji,
        "homepage": skill.homepage,
        "always": skill.is_always,
        "disabled": False,
        "blockedByAllowlist": False,
        "eligible": not skill.unmet,
        "requirements": requires,
        "missing": {kind: list(unmet.get(kind, ())) for kind in requires},
        "configChecks": [],
        "install": [],
    }


METHODS: Final = (Method("skills.status", SkillsStatusParams, skills_status),)
