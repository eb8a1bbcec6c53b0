"""Add a house rule to the system prompt that is already put together."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import PromptChange, PromptDraft

RULE = "Give lengths in metres."


async def add_rule(event: PromptDraft) -> PromptChange | None:
    """Append the rule where it is not there yet."""
    if event.system_prompt is not None and RULE in event.system_prompt:
        return None
    return PromptChange(append_system_context=RULE)


def register(api: PluginApi) -> None:
    """Take part."""
    api.hooks.before_agent_start(add_rule)
