"""Appends a house rule to the complete system prompt."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import PromptChange, PromptDraft

RULE = "Give lengths in metres."


async def add_rule(event: PromptDraft) -> PromptChange | None:
    """Appends the rule unless the prompt has it already."""
    if event.system_prompt is not None and RULE in event.system_prompt:
        return None
    return PromptChange(append_system_context=RULE)


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.before_agent_start(add_rule)
