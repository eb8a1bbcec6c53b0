"""Commands of all conversations, in memory: running and recently ended ones."""

import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from skerry.features.exec.process_session import CommandState, ExecCommand, ProcessSession
from skerry.infra.clock import Clock
from skerry.model.errors import ToolError
from skerry.model.ids import SessionKey

MAX_RUNNING: Final = 128
"""Maximum number of commands that run at the same time."""
MAX_RUNNING_PER_SESSION: Final = 64
"""Maximum number of running commands of one conversation."""
MAX_ENDED: Final = 64
"""Maximum number of ended commands; the oldest is removed first."""

_ADJECTIVES: Final = ("amber", "brisk", "calm", "clear", "deep", "eager", "fresh", "keen", "kind")
_NOUNS: Final = ("atlas", "bay", "cedar", "cliff", "coral", "falcon", "fjord", "reef", "ridge")

Start = Callable[[Callable[[], Awaitable[None]], str], None]
Tell = Callable[[ProcessSession], Awaitable[None]]
"""Reports the end of a background command to its agent, unless the agent received it."""


async def tell_nobody(_: ProcessSession) -> None:
    """Reports nothing."""


class Registry:
    """Starts commands and finds them by their conversation.

    `start` runs work in a task that ends with the gateway. `keep_ms` returns the time for which an
    ended command is kept; `tell` is called at the end of a background command.
    """

    def __init__(
        self, start: Start, clock: Clock, keep_ms: Callable[[], int], tell: Tell = tell_nobody
    ) -> None:
        self._start = start
        self._clock = clock
        self._keep_ms = keep_ms
        self._tell = tell
        self._sessions: dict[str, ProcessSession] = {}

    def begin(self, command: ExecCommand, key: SessionKey) -> ProcessSession:
        """Starts a command of the conversation.

        Raises:
            ToolError: the limit of running commands is reached.
        """
        running = [
            session_
            for session_ in self._sessions.values()
            if session_.status is CommandState.RUNNING
        ]
        of_session = sum(session_.key == key for session_ in running)
        if len(running) >= MAX_RUNNING or of_session >= MAX_RUNNING_PER_SESSION:
            number = of_session if of_session >= MAX_RUNNING_PER_SESSION else len(running)
            message = f"{number} commands are running already."
            raise ToolError(f"{message} Kill some with the tool process, action kill.")
        session = ProcessSession(self._name(), command, key, self._clock)
        self._sessions[session.id] = session
        self._start(partial(self._run, session), f"command {session.id}")
        return session

    async def _run(self, session: ProcessSession) -> None:
        await session.run()
        if session.is_background:
            await self._tell(session)

    def find(self, session_id: str, key: SessionKey) -> ProcessSession | None:
        """Returns a background command of the conversation."""
        self._forget_old()
        session = self._sessions.get(session_id)
        return session if session is not None and session.key == key else None

    def of(self, key: SessionKey) -> list[ProcessSession]:
        """Returns the background commands of the conversation, newest first."""
        self._forget_old()
        sessions = [
            session
            for session in self._sessions.values()
            if session.key == key and session.is_background
        ]
        return sorted(sessions, key=lambda session: session.started_at, reverse=True)

    def forget(self, session: ProcessSession) -> None:
        """Removes a command."""
        self._sessions.pop(session.id, None)

    def _forget_old(self) -> None:
        before = self._clock.now_ms() - self._keep_ms()
        ended = [command for command in self._sessions.values() if command.ended_at is not None]
        ended.sort(key=lambda command: command.ended_at or 0)
        for count, session in enumerate(ended):
            if (session.ended_at or 0) < before or count < len(ended) - MAX_ENDED:
                self.forget(session)

    def _name(self) -> str:
        name = f"{secrets.choice(_ADJECTIVES)}-{secrets.choice(_NOUNS)}"
        while name in self._sessions:
            name += f"-{secrets.token_hex(1)}"
        return name
