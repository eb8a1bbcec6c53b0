"""Converts a message such as `/invoice for Ada` into a request that uses the skill."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from skerry.config.root import Config
from skerry.model.ids import AgentId, RunId
from skerry.model.inbound import InboundMessage
from skerry.model.message import AssistantMessage, Message, ToolCall, ToolResultMessage, notice
from skerry.model.rights import Rights
from skerry.model.run import Inline, Purpose, RunRequest, SkillCall
from skerry.model.session import SessionSettings
from skerry.ports.tool import Tool
from skerry.runtime.run_context import Runtime
from skerry.workspace.skill_commands import SkillCommand, skill_commands, typed_skill, user_turn

_MODEL: Final = "skill"
"""Model in the transcript entry of a call that a skill's command makes."""
_CLIENT: Final = "client"
"""The same of a call that a client of the gateway makes."""
_NO_TEXT: Final = "Done."


async def with_skill(
    runtime: Runtime, config: Config, request: RunRequest, arrived: InboundMessage | None = None
) -> RunRequest:
    """Returns the request with the skill that its text names as a command, if it names one.

    By default the text becomes a message that asks the model to use the skill: the run gets no
    rights that it would not have for that message. A skill with a tool is called without a model;
    only the owner and the senders in `commands.allowFrom` may give such a command, and the policy
    decides the call like one of the model.
    """
    text = request.text
    if not text.startswith("/") or request.skill is not None or request.opening is not None:
        return request
    if request.purpose is not Purpose.MESSAGE or (arrived is not None and arrived.forwarded):
        return request
    commands = await commands_of_skills(runtime, config, request.key.agent)
    typed = typed_skill(text, commands, request.skills)
    if typed is None:
        return request
    command, arguments = typed
    skill = command.skill
    call = SkillCall(skill.name, command.name, skill.tool, arguments)
    if skill.tool:
        return replace(request, skill=call) if request.may.covers(Rights.LISTED) else request
    sent = Inline(text, SessionSettings())  # a repeated request has the sent text
    return replace(request, text=user_turn(skill, arguments), inline=sent, skill=call)


def tool_turn(
    skill: SkillCall, tools: Mapping[str, Tool], run_id: RunId, last: Message, at: int
) -> AssistantMessage:
    """Returns the next response of a run that calls a tool for a skill or for a client.

    This is the call of the tool, and after the call a notice with its result.

    Args:
        skill: The skill and the text after its command.
        tools: All tools by name.
        run_id: Id of the run.
        last: The last message of the run.
        at: Present time in milliseconds since 1970.

    """
    if isinstance(last, ToolResultMessage):
        return notice(last.text or _NO_TEXT, at)
    if skill.call:
        call = ToolCall(f"call-{run_id}", skill.tool, msgspec.json.decode(skill.call))
        return replace(notice("", at), content=(call,), model=_CLIENT, stop_reason="toolUse")
    arguments = {"command": skill.arguments, "commandName": skill.command, "skillName": skill.skill}
    tool = tools.get(skill.tool)
    if tool is not None and tool.spec.parameters.get("additionalProperties") is False:
        accepted = tool.spec.parameters.get("properties", {})
        arguments = {name: value for name, value in arguments.items() if name in accepted}
    call = ToolCall(f"skill-{run_id}", skill.tool, arguments)
    return replace(notice("", at), content=(call,), model=_MODEL, stop_reason="toolUse")


async def commands_of_skills(
    runtime: Runtime, config: Config, agent: AgentId
) -> dict[str, SkillCommand]:
    """Returns the commands of an agent's skills by name; no built-in command is among them."""
    skills = await runtime.prompts.skills.current(config, agent)
    return skill_commands(skills, runtime.commands.names) if skills.skills else {}
