"""Reactions that acknowledge messages: set when a message is accepted, removed after the answer.

They are optional: nothing waits for a reaction, none survives a restart, and a refused one is not
tried again.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio
from msgspec import Struct, field

from skerry.config.messages import AckScope, MessagesConfig
from skerry.model.ids import RunId
from skerry.model.inbound import PeerKind, ReplyTo
from skerry.ports.channel import ChannelAdapter, Reacts
from skerry.store import Reader, Store, outbox, runs
from skerry.store.outbox import PartState

logger = logging.getLogger(__name__)

REACT_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 1.0
"""Seconds between two checks if an answer was sent."""
MAX_WAITING: Final = 100
"""Limit on the waiting reactions of an account; older ones are dropped."""
MAX_SECONDS: Final = 3600.0
"""Seconds after which a reaction is removed even without an answer."""
_OPEN: Final = frozenset({PartState.PENDING, PartState.SENDING})


def acknowledges(
    config: MessagesConfig, to: ReplyTo, *, is_addressed: bool, must_address: bool
) -> bool:
    """Returns whether a message gets a reaction (pure).

    Args:
        config: The reaction and its scope.
        to: Address of the message.
        is_addressed: The message mentions the agent or answers it.
        must_address: Only such messages are answered in its group.

    """
    if not config.ack_reaction or not to.message_id:
        return False
    is_direct = to.peer.kind is PeerKind.DIRECT
    match config.ack_reaction_scope:
        case AckScope.ALL:
            return True
        case AckScope.DIRECT:
            return is_direct
        case AckScope.GROUP_ALL:
            return not is_direct
        case AckScope.GROUP_MENTIONS:
            return not is_direct and is_addressed and must_address
        case AckScope.OFF:
            return False


class _Waiting(Struct):
    """A reaction that is removed when the answer was sent."""

    run_id: RunId
    to: ReplyTo
    until: float


class Reactions(Struct):
    """Sets and removes the reactions of one account."""

    adapter: ChannelAdapter
    store: Store
    _queue: deque[Callable[[], Awaitable[None]]] = field(
        default_factory=lambda: deque(maxlen=MAX_WAITING)
    )
    _waiting: list[_Waiting] = field(default_factory=list)
    _wake: anyio.Event = field(default_factory=anyio.Event)

    def acknowledge(self, to: ReplyTo, emoji: str, run_id: RunId, *, remove: bool) -> None:
        """Queues a reaction; with `remove` it is removed when the run's answer was sent."""
        if not isinstance(self.adapter, Reacts):
            return
        self._queue.append(partial(self.adapter.react, to, emoji))
        if remove:
            until = anyio.current_time() + MAX_SECONDS
            self._waiting = [*self._waiting[-MAX_WAITING:], _Waiting(run_id, to, until)]
        self._wake.set()

    async def run(self) -> None:
        """Sets and removes reactions until cancelled."""
        while True:
            await self._process_queue()
            self._wake = anyio.Event()
            if self._queue:
                continue
            with anyio.move_on_after(LOOK_SECONDS if self._waiting else None):
                await self._wake.wait()

    async def _process_queue(self) -> None:
        while self._queue:
            await self._attempt(self._queue.popleft())
        for waiting in list(self._waiting):
            is_late = anyio.current_time() > waiting.until
            if is_late or await self._is_answered(waiting.run_id):
                self._waiting.remove(waiting)
                if isinstance(self.adapter, Reacts):
                    await self._attempt(partial(self.adapter.react, waiting.to, ""))

    async def _is_answered(self, run_id: RunId) -> bool:
        def read(reader: Reader) -> bool:
            ended = runs.result(reader, run_id) is not None
            return ended and not (_OPEN & outbox.states(reader, run_id))

        return await self.store.read(read)

    async def _attempt(self, react: Callable[[], Awaitable[None]]) -> None:
        try:
            with anyio.fail_after(REACT_SECONDS):
                await react()
        except Exception:
            # A platform may refuse a reaction for many reasons; the message is not affected.
            logger.info("setting a reaction on %s failed", self.adapter.channel, exc_info=True)
