"""Message that `/retry` runs again: the last of a conversation whose run failed."""

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
"""Runs: messages that entered the last one, and commands after it, come before it."""


def to_retry(
    reader: Reader,
    key: SessionKey,
    is_command: Callable[[str], bool],
    command_run: RunId | None = None,
    *,
    by_owner: bool = True,
) -> RunRequest | None:
    """Returns the request that runs the last message again; None when it is answered.

    Its id follows from the run that it repeats, so that asking twice runs it once. Messages that
    had entered that run are said with it, for they ended with it. The answer goes to where the run
    `asked` came from, which is the command's. What the owner said runs again for the owner alone.
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
    """Returns the request as somebody with these scopes may repeat it.

    What its first sender set for it alone (model, thinking, directives) stays only where who
    repeats it has all of the first sender's scopes. None are those of the owner in a chat.
    """
    first = (ADMIN,) if request.scopes is None else request.scopes
    if scopes is None or all(allows(scopes, scope) for scope in first):
        return replace(request, scopes=scopes)
    return replace(request, scopes=scopes, model=None, thinking=None, inline=None)


def _original_request(reader: Reader, ended: FinishedRun, key: SessionKey) -> RunRequest | None:
    """Returns the request; the text of a large or an old one is read from the transcript."""
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
