"""The scopes of a client's run that an older gateway stored without them."""

import logging
from typing import Final

from msgspec.structs import replace

from skerry.model.origin import Origin
from skerry.model.queue import QueueMode
from skerry.model.run import Inline, Purpose, RunRequest
from skerry.model.session import SessionSettings
from skerry.policy.access import WRITE

logger = logging.getLogger(__name__)

LEAST: Final = (WRITE,)
"""The scopes that every client held whose message was accepted."""


def with_scopes(request: RunRequest) -> RunRequest:
    """Returns the request with the least scopes, where a client sent it and none are stored.

    Commands, beginning a conversation anew and settings need more: the command is refused when its
    turn comes, and what else is said runs without the settings. The run of a person on a platform
    and that of a checklist stay as they are.
    """
    is_clients = request.reply_to is None and request.origin is Origin.OWNER
    if request.scopes is not None or not is_clients or request.purpose is not Purpose.MESSAGE:
        return request
    return _without_settings(_without_opening(replace(request, scopes=LEAST)))


def _without_opening(request: RunRequest) -> RunRequest:
    """Returns the request as the command that it is, so that it is refused as one."""
    wanted = request.opening
    if wanted is None or wanted.done:
        return request
    said = wanted.target if wanted.bare else request.text
    return replace(request, text=f"/{wanted.kind} {said}".strip(), opening=None)


def _without_settings(request: RunRequest) -> RunRequest:
    inline = request.inline
    if inline is None or inline.settings == SessionSettings():
        return request
    logger.warning("run %s is done without the settings that its message names", request.run_id)
    own = inline.settings
    return replace(
        request,
        inline=Inline(inline.sent, SessionSettings(), inline.status),
        thinking=None if own.thinking_level else request.thinking,
        queue_mode=QueueMode.OWN if own.queue_mode else request.queue_mode,
    )
