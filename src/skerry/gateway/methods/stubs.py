"""Methods for features that are missing yet: well-formed, empty answers.

Clients call them when they connect or in overviews, and treat an error as a broken gateway.
"""

from typing import Final

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params


class SkillsStatusParams(Params):
    """Parameters of `skills.status`."""

    agent_id: Name | None = None
    session_key: Name | None = None


def skills_status(call: Call, params: SkillsStatusParams) -> Json:
    """Returns an agent's skills, of which there are none."""
    config = call.context.config()
    agent = call.session_key(params.session_key, params.agent_id).agent
    return {
        "workspaceDir": str(config.workspace(agent)),
        "managedSkillsDir": str(config.state_dir / "skills"),
        "agentId": agent,
        "skills": [],
    }


METHODS: Final = (Method("skills.status", SkillsStatusParams, skills_status),)
