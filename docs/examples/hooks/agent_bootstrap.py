"""Appends the house rules to the files of every prompt."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import BootstrapChange, BootstrapDraft, BootstrapFile

RULES = BootstrapFile(name="HOUSE.md", text="Quiet hours are from 22:00 to 07:00.")


def add_rules(draft: BootstrapDraft) -> BootstrapChange:
    """Returns the files, with the rules as the last file."""
    return BootstrapChange(files=(*draft.files, RULES))


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.agent_bootstrap(add_rules)
