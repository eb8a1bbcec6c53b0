"""Follows a run for the client of a request: its growing text, its end, and the disconnect."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from msgspec import Struct, field
from starlette.types import Receive

from skerry.gateway.context import GatewayContext
from skerry.model.event import RunEventBody, TextDelta, TextEnded, TextWithdrawn
from skerry.model.ids import RunId
from skerry.model.run import RunResult

AGAIN: Final = "\n\n[The model failed; the answer begins again.]\n\n"
"""Text before a repeated answer, since sent text cannot be withdrawn."""


class RunFollower(Struct):
    """State of a run as its client knows it. `changed` is replaced at each wait."""

    context: GatewayContext
    run_id: RunId
    result: RunResult | None = None
    is_over: bool = False
    """True when the run has ended, or the gateway stops."""
    is_gone: bool = False
    """True when the client has disconnected."""
    _sent: str = ""
    """Sent part of the text, as far as it was not withdrawn."""
    _is_repeated: bool = False
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def hear(self, body: RunEventBody) -> None:
        """Receives an event of the run."""
        match body:
            case TextDelta() | TextEnded():
                self._changed.set()
            case TextWithdrawn():
                text = self.context.broadcast.text(self.run_id)
                if len(self._sent) > len(text):
                    self._sent, self._is_repeated = text, True

    def end(self, result: RunResult | None) -> None:
        """Stores the result of the run; None when the gateway stops."""
        self.result, self.is_over = result, True
        self._changed.set()

    @property
    def is_open(self) -> bool:
        """Returns whether the run goes on and the client is connected."""
        return not (self.is_over or self.is_gone)

    @property
    def answer(self) -> str:
        """Returns the whole answer of an ended run."""
        return "\n\n".join(self.result.payloads) if self.result else ""

    def new_text(self) -> str:
        """Returns the text since the last call."""
        text = self.answer if self.result else self.context.broadcast.text(self.run_id)
        if not text.startswith(self._sent):
            return ""  # a plugin has changed an answer that was sent
        new, self._sent = text[len(self._sent) :], text
        if new and self._is_repeated:
            self._is_repeated = False
            return AGAIN + new
        return new

    async def change(self, seconds: float) -> bool:
        """Waits until the text grows, the run ends or the client disconnects.

        Returns False when nothing happens within `seconds`.
        """
        if not self.is_open:
            return True
        with anyio.move_on_after(seconds) as waiting:
            await self._changed.wait()
        self._changed = anyio.Event()
        return not waiting.cancelled_caught

    @asynccontextmanager
    async def waiting(self, receive: Receive) -> AsyncGenerator[None]:
        """Waits for the end of the run and for the disconnect during the block."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_run)
            tasks.start_soon(self._watch_client, receive)
            yield
            tasks.cancel_scope.cancel()

    async def _watch_run(self) -> None:
        if not self.is_over:
            self.end(await self.context.dispatcher.wait(self.run_id, None))

    async def _watch_client(self, receive: Receive) -> None:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.is_gone = True
                self._changed.set()
                return
