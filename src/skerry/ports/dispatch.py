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
    """Number of sessions whose work waits for a slot."""
    limit: int


class SessionQueue(Struct, frozen=True):
    """Active and waiting runs of one session. Times are milliseconds since 1970."""

    key: str
    run_id: RunId | None
    """The active run; None while all runs wait."""
    since: int | None
    """Time at which the turn of the active run began; None without one."""
    waiting: int
    oldest: int | None
    """Time at which the first waiting run was accepted; None if none waits."""
    mode: QueueMode
    """Queue mode of a message that would arrive now."""


class QueueReport(Struct, frozen=True):
    """Present work of the gateway."""

    lanes: tuple[LaneUse, ...]
    sessions: tuple[SessionQueue, ...]
    """Sessions with work; the one whose run was accepted first comes first."""
    stuck: tuple[AbandonedWork, ...]
    """Work that was cancelled and has not ended; nothing waits for it."""


class QueuedRun(Struct, frozen=True):
    """A run of a session that has not ended."""

    run_id: RunId
    says: tuple[tuple[RunId, str], ...] = ()
    """Run id and text of each message that the run answers; empty if they are in the transcript."""
    waits: bool = False
    """True while its turn has not begun."""


class Dispatcher(Protocol):
    """Accepts requests to run, and reports on the runs."""

    async def submit(self, request: RunRequest) -> Admission:
        """Stores the request and returns; a repeated run id returns the state of the first request.

        Raises:
            BusyError: the gateway is shutting down.
            UnknownAgentError: the session key names no configured agent.
            StoreFailedError: the request could not be stored, so it was not accepted.
        """
        ...

    async def wait(self, run_id: RunId, timeout: float | None) -> RunResult | None:  # noqa: ASYNC109 - of the waiting alone
        """Returns the result of the run; None after `timeout` seconds, or if the id is unknown.

        Without a timeout it waits until the run ends.
        """
        ...

    def abort(self, key: SessionKey, run_id: RunId | None, by: str) -> list[RunId]:
        """Stops one run, or all runs of the session with None; returns the ids of the stopped runs.

        Waiting runs are stopped too. `by` is recorded as the person or client that stopped them.
        """
        ...

    def active(self, key: SessionKey | None = None) -> list[RunId]:
        """Returns the runs that are accepted and not ended, oldest first."""
        ...

    def line(self, key: SessionKey) -> list[QueuedRun]:
        """Returns the active and waiting runs of the session, in order.

        A run whose message entered another run is left out.
        """
        ...

    def queue(self) -> QueueReport:
        """Returns the active and the waiting runs of all sessions."""
        ...

    async def run_exclusive(
        self, key: SessionKey, work: Callable[[], Awaitable[T]], *, stopping: str | None = None
    ) -> T:
        """Runs `work` while no run of the session is active; returns its result.

        It waits for the runs that were accepted before. With `stopping` it stops them instead and
        records `stopping` as the person or client that did. Messages that arrive meanwhile wait;
        afterwards they enter the session that then has the key.

        Raises:
            BusyError: the gateway is shutting down, or a run did not end in time; `work` did not
                begin.
        """
        ...

    async def compact(self, key: SessionKey, instructions: str) -> CompactionResult | None:
        """Summarises the earlier part of a conversation; None if there is nothing to summarise.

        It makes at least one model call. It waits for the runs that were accepted before; messages
        that arrive meanwhile wait.

        Raises:
            BusyError: the gateway is shutting down, or a run did not end in time.
            ModelError: no model could be chosen.
            StateError: the summary could not be stored; nothing changed.
        """
        ...
