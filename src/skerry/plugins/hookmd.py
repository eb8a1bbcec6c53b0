"""Reads HOOK.md: the description of the hook in a folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import Field, ValidationError

from skerry.model.errors import PluginError
from skerry.plugins.front_matter import Metadata, first_fault, front_matter, metadata

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
    """The part of `metadata` that is for gateways, of a hook."""

    events: tuple[str, ...] = ()
    export: str = Field(default="handle", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """The function of handler.py; `default`, which other gateways write, is `handle`."""


@dataclass(frozen=True, slots=True)
class DeclaredHook:
    """Content of HOOK.md."""

    name: str
    description: str
    homepage: str
    about: HookMetadata


def declared(text: str, folder: str) -> DeclaredHook:
    """Parses the text of HOOK.md; without a name the hook has that of its folder.

    Raises:
        PluginError: it is not to be understood, or asks for an event that there is not.
    """
    values = front_matter(text, "HOOK.md")
    try:
        about = HookMetadata.model_validate(metadata(values.get("metadata", ""), "HOOK.md"))
    except ValidationError as error:
        raise first_fault(error, "HOOK.md") from error
    if about.export == "default":
        about = about.model_copy(update={"export": "handle"})
    unknown = [event for event in about.events if event not in EVENTS]
    if unknown or not about.events:
        what = f"Unknown event {unknown[0]!r}." if unknown else "It names no event."
        raise PluginError(what, f"Events: {', '.join(EVENTS)}.")
    name = values.get("name") or folder
    return DeclaredHook(name, values.get("description", ""), values.get("homepage", ""), about)
