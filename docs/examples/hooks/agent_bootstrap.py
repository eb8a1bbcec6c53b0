"""Puts the house rules behind the files of every prompt."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import BootstrapChange, BootstrapDraft, BootstrapFile

RULES = BootstrapFile(name="HOUSE.md", text="Quiet hours are from 22:00 to 07:00.")


def add_rules(draft: BootstrapDraft) -> BootstrapChange:
    """Return the files with the rules as the last."""
    return BootstrapChange(files=(*draft.files, RULES))


def register(api: PluginApi) -> None:
    """Take part where the files of a prompt are gathered."""
    api.hooks.agent_bootstrap(add_rules)
