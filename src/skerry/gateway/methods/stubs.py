"""Methods for features that are missing yet: well-formed, empty answers.

Clients call them when they connect or in overviews, and treat an error as a broken gateway.
"""

from typing import Annotated, Final

from pydantic import Field

from skerry.gateway.frames import Json, raw
from skerry.gateway.method import Call, Method, Name, NoParams, Params


class ChannelsStatusParams(Params):
    """Parameters of `channels.status`."""

    probe: bool | None = None
    timeout_ms: Annotated[int, Field(ge=0, le=600_000)] | None = None
    channel: Name | None = None


class SkillsStatusParams(Params):
    """Parameters of `skills.status`."""

    agent_id: Name | None = None
    session_key: Name | None = None


def channels_status(call: Call, _params: ChannelsStatusParams) -> Json:
    """Returns the chat platforms, of which none can be configured yet."""
    return {
        "ts": call.context.clock.now_ms(),
        "channelOrder": [],
        "channelLabels": {},
        "channelDetailLabels": {},
        "channelSystemImages": {},
        "channelMeta": [],
        "channels": {},
        "channelAccounts": {},
        "channelDefaultAccountId": {},
    }


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
    Method("channels.status", ChannelsStatusParams, channels_status),
    Method("skills.status", SkillsStatusParams, skills_status),
    Method("last-heartbeat", NoParams, last_heartbeat),
)
