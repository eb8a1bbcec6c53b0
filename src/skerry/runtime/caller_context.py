"""Context of tools and plugins: the caller, and the origins of the model's input (pure)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from skerry.hooks.events import WEBCHAT, RunContext
from skerry.model.caller import Caller, chat_of
from skerry.model.ids import SessionId
from skerry.model.message import AssistantMessage, Message, ToolResultMessage
from skerry.model.origin import Origin
from skerry.model.run import RunRequest
from skerry.workspace.prompt_files import is_private

_NOTED: Final = frozenset({Origin.OWNER, Origin.MEMORY})
_CONFIRMS: Final = frozenset({"edit", "memory_write", "write"})
"""Tools that answer what the model did."""
_FAILS: Final = frozenset({"read"})
"""Tools whose failure repeats what the model asked for, in words of ours."""
_QUOTES: Final = frozenset({"session_search"})
"""Tools that answer with what was said, by whomever."""


_WORST: Final = (
    Origin.STRANGER,
    Origin.WEB,
    Origin.PLUGIN,
    Origin.TOOL,
    Origin.KNOWN,
    Origin.BOOT,
    Origin.MEMORY,
)
"""Order by which a text gets one of several origins."""


def caller_of(request: RunRequest) -> Caller:
    """Returns who asks with a request."""
    to = request.reply_to
    return Caller(
        request.key,
        chat_of(request.key, to.peer.kind if to else None),
        request.origin,
        is_private(request),
        to.channel if to else "",
    )


def run_context(
    request: RunRequest,
    session_id: SessionId,
    workspace: Path | None = None,
    caller: Caller | None = None,
) -> RunContext:
    """Returns the context of a run for hooks; a known caller is passed in."""
    return RunContext(
        run_id=request.run_id,
        agent_id=request.key.agent,
        session_key=str(request.key),
        session_id=session_id,
        channel=request.reply_to.channel if request.reply_to else WEBCHAT,
        workspace=workspace,
        caller=caller or caller_of(request),
    )


def taint(messages: Iterable[Message]) -> frozenset[Origin]:
    """Returns the origins of what the model reads and neither its owner nor it itself has said.

    What a tool found in the owner's notes counts as the owner's, and what `write` answers is about
    the model's own words. A transcript does not, nor a summary: nobody can tell any more what they
    repeat.
    """
    return frozenset(origin for message in messages if (origin := foreign(message)) is not None)


def worst(heard: frozenset[Origin]) -> Origin:
    """Returns the origin that words count for where several were heard; the owner's for none."""
    return next((one for one in _WORST if one in heard), Origin.OWNER)


def foreign(message: Message) -> Origin | None:
    """Returns whose words the model reads in the message; None for its owner's and its own."""
    origin = message.origin
    match message:
        case AssistantMessage():
            return origin
        case ToolResultMessage(tool_name=name) if name in _CONFIRMS:
            return None
        case ToolResultMessage(tool_name=name, is_error=True, origin=Origin.TOOL) if name in _FAILS:
            return None
        case ToolResultMessage(tool_name=name) if name not in _QUOTES:
            return None if origin in _NOTED else origin
    return None if origin is Origin.OWNER else origin
