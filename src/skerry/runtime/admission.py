"""Entry of a message into its conversation, in one unit with its effect on the session there."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from skerry.commands.table import CommandCall, tell_command
from skerry.hooks.events import WEBCHAT
from skerry.lanes.running import ActiveRun
from skerry.model.ids import SessionId
from skerry.model.message import Message
from skerry.model.run import RunRequest
from skerry.model.session import SessionSettings
from skerry.runtime.services import Runtime
from skerry.sessions import lifecycle
from skerry.sessions.opening import Opened, enter
from skerry.sessions.resets import Expiry
from skerry.sessions.sending import sends_to
from skerry.store import Unit, archive, listing, outbox, sessions
from skerry.store.listing import Wanted

NOTICE: Final = -1
"""The block of a run in which a notice is delivered: before those of the reply."""
_BY_ITSELF: Final = frozenset(Expiry)


class Entered(Struct, frozen=True):
    """Position of the message in its conversation."""

    opened: Opened
    entry: int
    """Number of its entry; 0 when hooks keep it from the transcript."""
    tail: int
    """Number of the last entry before it."""
    settings: SessionSettings

    def apply(self, active: ActiveRun) -> None:
        """Note it in the run, once the unit is committed."""
        active.request = self.opened.request
        active.session_id = self.opened.session_id
        active.entry = self.entry
        active.settings = active.request.settled(self.settings)
        if self.opened.why in _BY_ITSELF:
            active.ended_before = self.opened.ended


def write(
    unit: Unit, runtime: Runtime, active: ActiveRun, said: Sequence[Message], new_id: SessionId
) -> Entered:
    """Write what was said into the session that it is to enter, which may begin with it."""
    request, at = active.request, active.accepted_at
    limits = runtime.limits(request)
    opened = enter(unit, request, limits, new_id, at)
    session_id, tail = opened.session_id, opened.tail
    written = [*opened.notes, *said]
    if written:
        heard = at if limits is not None else 0
        sessions.append(unit, session_id, tail, request.run_id, written, at, heard=heard)
    settings = sessions.settings(unit, session_id)
    if request.label and not _is_taken(unit, request):
        archive.change(unit, session_id, label=request.label, settings=settings)
    policy = runtime.config().session.send_policy
    to = sends_to(policy, settings, request.key, request.reply_to) if opened.notes else None
    if to is not None:
        texts = [part for one in opened.notes for part in runtime.parts(to, one.text)]
        outbox.add(unit, request.run_id, NOTICE, to, texts, at)
    tail += len(opened.notes)
    return Entered(opened, tail + 1 if said else 0, tail, settings)


def _is_taken(unit: Unit, request: RunRequest) -> bool:
    """Return whether another conversation got the label since the request was checked."""
    found = listing.recent(unit, Wanted(request.key.agent, label=request.label), limit=2)
    return any(one.key != str(request.key) for one in found)


async def tell(runtime: Runtime, entered: Entered) -> None:
    """Let the person and plugins hear of a session that began or came back, after the COMMIT."""
    opened = entered.opened
    if opened.notes and opened.request.reply_to is not None:
        runtime.deliver(opened.request.reply_to)
    request, opening = opened.request, opened.request.opening
    if opening is not None and opening.done and not opening.bare:  # else it is answered as one
        channel = request.reply_to.channel if request.reply_to else WEBCHAT
        call = CommandCall(opening.kind, request.text, request.key, channel, is_owner=True)
        tell_command(runtime.hooks, call, opened.session_id)
    if opened.began or opened.ended is not None:
        await lifecycle.opened(runtime.hooks, runtime.store, opened)
