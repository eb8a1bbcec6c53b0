"""Message that `/retry` runs again: the last message of a conversation, if its run failed."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from skerry.model.ids import RunId, SessionKey
from skerry.model.message import ImageBlock, TextBlock, UserMessage
from skerry.model.origin import Origin
from skerry.model.run import RunRequest, StopReason
from skerry.policy.access import ADMIN
from skerry.policy.decide import allows
from skerry.store import Reader, runs, sessions
from skerry.store.runs import FinishedRun, OpenRun

NOTHING_TO_RETRY: Final = "Nothing can be run again: the last message was answered."
_FAILED: Final = frozenset({StopReason.INTERRUPTED, StopReason.ERROR, StopReason.TIMEOUT})
_LOOK_BACK: Final = 20
"""Limit on the runs that are read: commands, and messages that entered the failed run, are newer
than that run."""


def to_retry(
    reader: Reader,
    key: SessionKey,
    is_command: Callable[[str], bool],
    command_run: RunId | None = None,
    *,
    by_owner: bool = True,
) -> RunRequest | None:
    """Returns the request that runs the last message again; None if it was answered.

    Its run id is derived from the failed run, so that two commands run it once. Messages that had
    entered that run are included, because they ended with it. The answer is sent to the chat of
    `command_run`, the run of the command. The owner's message is repeated only if `by_owner`.
    """
    entered: list[RunRequest] = []
    for ended in runs.last_ended(reader, str(key), _LOOK_BACK):
        request = _original_request(reader, ended, key)
        if request is None or is_command(request.text):
            continue
        if ended.result.joined is not None:
            entered.insert(0, request)
            continue
        if ended.result.stop_reason not in _FAILED:
            return None
        current = sessions.find(reader, str(key))
        if current is None or current.session_id != ended.session_id:
            return None  # the conversation began anew
        if request.origin is Origin.OWNER and not by_owner:
            return None
        invoking = runs.find(reader, command_run) if command_run else None
        texts = (request.text, *(guest.text for guest in entered))
        return replace(
            request,
            run_id=RunId(f"{request.run_id}:retry"),
            text="\n\n".join(texts),
            reply_to=invoking.request.reply_to
            if isinstance(invoking, OpenRun)
            else request.reply_to,
            images=(*request.images, *(image for guest in entered for image in guest.images)),
        )
    return None


def as_asked_by(request: RunRequest, scopes: tuple[str, ...] | None) -> RunRequest:
    """Returns the request with the scopes of the client that repeats it.

    Options of the request (model, thinking, directives) are kept only if the client has all scopes
    of the first sender. `scopes` is None for the owner in a chat.
    """
    first = (ADMIN,) if request.scopes is None else request.scopes
    if scopes is None or all(allows(scopes, scope) for scope in first):
        return replace(request, scopes=scopes)
    return replace(request, scopes=scopes, model=None, thinking=None, inline=None)


def _original_request(reader: Reader, ended: FinishedRun, key: SessionKey) -> RunRequest | None:
    """Returns the request of a run; reads the text of a large or old one from the transcript."""
    request = ended.request
    if request is not None and (request.text or request.images or request.opening is not None):
        return request
    entries = sessions.entries(
        reader, ended.session_id, limit=1, after=ended.entry - 1, before=ended.entry + 1
    )
    if not entries or not isinstance(entries[0].message, UserMessage):
        return None
    message = entries[0].message
    text = "".join(block.text for block in message.content if isinstance(block, TextBlock))
    images = tuple(block for block in message.content if isinstance(block, ImageBlock))
    if request is not None:
        return replace(request, run_id=ended.result.run_id, text=text, images=images)
    return RunRequest(ended.result.run_id, key, text, images=images, origin=message.origin)
