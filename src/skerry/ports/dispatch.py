"""Protocol through which the gateway's methods use the application."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from msgspec import Struct

from skerry.infra.supervise import AbandonedWork
from skerry.model.ids import RunId, SessionKey
from skerry.model.queue import QueueMode
from skerry.model.run import Admission, CompactionResult, RunRequest, RunResult

T = TypeVar("T")


class LaneUse(Struct, frozen=True):
    """Load of a group of lanes."""

    name: str
    running: int
    waiting: int
    """Sessions with work that wait for a slot."""
    limit: int


class SessionQueue(Struct, frozen=True):
    """Active and waiting runs of one session. Times are milliseconds since 1970."""

    key: str
    run_id: RunId | None
    """The run that is on; None while all of them wait."""
    since: int | None
    """Time at which its turn began."""
    waiting: int
    oldest: int | None
    """Time at which the first waiting run was accepted."""
    mode: QueueMode
    """Queue mode for a message that arrives now."""


class QueueReport(Struct, frozen=True):
    """Work of the gateway at present."""

    lanes: tuple[LaneUse, ...]
    sessions: tuple[SessionQueue, ...]
    """Sessions with work, the longest accepted first."""
    stuck: tuple[AbandonedWork, ...]
    """Work that was to stop and did not; nothing waits for it."""


class QueuedRun(Struct, frozen=True):
    """A run of a session that has not ended."""

    run_id: RunId
    says: tuple[tuple[RunId, str], ...] = ()
    """The messages that it answers, each with its run; empty where the transcript has them."""
    waits: bool = False
    """True when its turn has not begun."""


class Dispatcher(Protocol):
    """Accepts requests to run, and stops them."""

    async def submit(self, request: RunRequest) -> Admission:
        """Accepts the run durably, or returns the stored state of a run with the same id.

        Raises:
            BusyError: the gateway drains.
            UnknownAgentError: the session key names no configured agent.
            StoreFailedError: nothing was accepted.
        """
        ...

    async def wait(self, run_id: RunId, timeout: float | None) -> RunResult | None:  # noqa: ASYNC109 - of the waiting alone
        """Returns how the run ended; None after `timeout` seconds, or when the run is unknown."""
        ...

    def abort(self, key: SessionKey, run_id: RunId | None, by: str) -> list[RunId]:
        """Stops one run, or all of the session, and returns their ids. Waiting runs count too."""
        ...

    def active(self, key: SessionKey | None = None) -> list[RunId]:
        """Returns the runs that are accepted and not ended, oldest first."""
        ...

    def line(self, key: SessionKey) -> list[QueuedRun]:
        """Returns the session's active runs, less those whose message has entered another."""
        ...

    def queue(self) -> QueueReport:
        """Returns the active and the waiting runs."""
        ...

    async def run_exclusive(
        self, key: SessionKey, work: Callable[[], Awaitable[T]], *, stopping: str | None = None
    ) -> T:
        """Runs `work` while no run of the session is active; returns its result.

        It waits for the runs that were accepted before, or stops them; `stopping` is then recorded
        as the caller. Messages that arrive meanwhile wait, and enter the session that exists after.

        Raises:
            BusyError: the gateway drains, or a run did not end in time; `work` was not begun.
        """
        ...

    async def compact(self, key: SessionKey, instructions: str) -> CompactionResult | None:
        """Summarises the earlier part of a conversation; None where there is nothing to summarise.

        It waits for the runs that were accepted before; messages that come meanwhile wait.

        Raises:
            BusyError: the gateway drains, or a run did not end in time.
            ModelError: no model could be chosen.
            StateError: nothing was stored.
        """
        ...
