"""Reads HOOK.md: the description of the hook in a folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import Field, ValidationError

from skerry.model.errors import PluginError
from skerry.workspace.front_matter import Metadata, first_fault, front_matter, metadata

EVENTS: Final[Mapping[str, str]] = {
    "agent:bootstrap": "agent_bootstrap",
    "command": "command",
    "command:new": "command",
    "command:reset": "command",
    "command:stop": "command",
    "gateway:shutdown": "gateway_stop",
    "gateway:startup": "gateway_start",
    "message:received": "message_received",
    "message:sent": "message_sent",
    "session:end": "session_end",
    "session:reset": "before_reset",
    "session:start": "session_start",
}
"""Events that a hook may name, each with its hook point."""


class HookMetadata(Metadata):
    """Keys of `metadata` of a hook that the gateway uses."""

    events: tuple[str, ...] = ()
    export: str = Field(default="handle", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Function in handler.py; `default`, which other gateways use, means `handle`."""


@dataclass(frozen=True, slots=True)
class DeclaredHook:
    """Content of HOOK.md."""

    name: str
    description: str
    homepage: str
    about: HookMetadata


def declared(text: str, folder: str) -> DeclaredHook:
    """Parses the text of HOOK.md; the default name is that of the folder.

    Raises:
        PluginError: the front matter is invalid, or an event is unknown or missing.
    """
    values = front_matter(text, "HOOK.md")
    try:
        about = HookMetadata.model_validate(metadata(values.get("metadata", ""), "HOOK.md"))
    except ValidationError as error:
        raise first_fault(error, "HOOK.md") from error
    if about.export == "default":
        about = about.model_copy(update={"export": "handle"})
    unknown_events = [event for event in about.events if event not in EVENTS]
    if unknown_events or not about.events:
        message = (
            f"Unknown event {unknown_events[0]!r}." if unknown_events else "It names no event."
        )
        raise PluginError(message, f"Events: {', '.join(EVENTS)}.")
    name = values.get("name") or folder
    return DeclaredHook(name, values.get("description", ""), values.get("homepage", ""), about)
