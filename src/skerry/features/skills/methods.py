"""The method `skills.status`: lists the skills of an agent."""

from typing import Final

import anyio.to_thread

from skerry.features.skills.report import status
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params
from skerry.workspace.skill_catalogue import SkillCatalogue


class SkillsStatusParams(Params):
    """Parameters of `skills.status`."""

    agent_id: Name | None = None
    session_key: Name | None = None


async def skills_status(call: Call, params: SkillsStatusParams) -> Json:
    """Returns the skills of an agent: tier, state, unmet requirements, ways to install programs."""
    config = call.context.config()
    agent = call.session_key(params.session_key, params.agent_id).agent
    plugins = call.context.plugins
    catalogue = plugins.skills if plugins is not None else SkillCatalogue()
    skills = await anyio.to_thread.run_sync(lambda: catalogue.load(config, agent, every=True))
    return status(skills, config, agent, call.context.commands.names)


METHODS: Final = (Method("skills.status", SkillsStatusParams, skills_status),)
