"""What the gateway's methods ask of the application."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from skerry.model.ids import RunId, SessionKey
from skerry.model.run import Admission, Compacted, RunRequest, RunResult

T = TypeVar("T")


class Dispatcher(Protocol):
    """Takes requests to run, and answers for them."""

    async def submit(self, request: RunRequest) -> Admission:
        """Accept the run durably, or say what is already known of its id.

        Raises:
            BusyError: the gateway drains.
            UnknownAgentError: the session key names no configured agent.
            StoreFailedError: nothing was accepted.
        """
        ...

    async def wait(self, run_id: RunId, timeout: float | None) -> RunResult | None:  # noqa: ASYNC109
        """Return how the run ended; None after `timeout` seconds, or when nobody knows the run."""
        ...

    def abort(self, key: SessionKey, run_id: RunId | None, by: str) -> list[RunId]:
        """Stop one run, or all of the session, and return their ids. Waiting runs count too."""
        ...

    def active(self, key: SessionKey | None = None) -> list[RunId]:
        """Return the runs that are accepted and not ended, oldest first."""
        ...

    async def alone(
        self, key: SessionKey, work: Callable[[], Awaitable[T]], *, stopping: str | None = None
    ) -> T:
        """Return what `work` returns, done while no run of the session is at work.

        It waits for the runs that were accepted before, or stops them, noting `stopping` as who
        did. Messages that come meanwhile wait, and enter the session that there is afterwards.

        Raises:
            BusyError: the gateway drains, or a run did not end in time; `work` was not begun.
        """
        ...

    async def compact(self, key: SessionKey, instructions: str) -> Compacted | None:
        """Summarise the earlier part of a conversation; None where there is nothing to summarise.

        It waits for the runs that were accepted before; messages that come meanwhile wait.

        Raises:
            BusyError: the gateway drains, or a run did not end in time.
            ModelError: no model could be chosen.
            StateError: nothing was stored.
        """
        ...
