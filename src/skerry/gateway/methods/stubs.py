"""Methods for features that are missing yet: well-formed, empty answers.

Clients call them when they connect or in overviews, and treat an error as a broken gateway.
"""

from typing import Final

from skerry.gateway.frames import Json, raw
from skerry.gateway.method import Call, Method, Name, NoParams, Params


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


def last_heartbeat(_call: Call, _params: NoParams) -> Json:
    """Returns the last heartbeat: null, for there is none."""
    return raw(None)


METHODS: Final = (
    Method("skills.status", SkillsStatusParams, skills_status),
    Method("last-heartbeat", NoParams, last_heartbeat),
)
