"""Books every model call, and refuses runs whose budget is used up.

The sums of today and yesterday are kept in memory, so that a check needs no query. They are read
from the store at the start, and every call is added to both.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any, Final

import anyio.to_thread

from skerry.config.root import Config
from skerry.infra.clock import Calendar, Clock, host_zone
from skerry.model.errors import BudgetError, ModelStreamCutError, StoreFailedError
from skerry.model.message import Usage
from skerry.model.origin import Origin
from skerry.model.run import Purpose, RunFailure, RunRequest
from skerry.ports.model_candidates import ABORTED, CallTarget, ModelCallEnded, ModelCandidate
from skerry.runtime.usage.budgets import BudgetWarning, budget_states, refusal, warning
from skerry.runtime.usage.usage_limits import Meter
from skerry.store import Store, Unit, usage
from skerry.store.call_log import CallLog
from skerry.store.usage import BookedCall, CallOutcome, Sums

logger = logging.getLogger(__name__)

NOWHERE: Final = "none"
"""Recorded as the channel of a call without one."""
_KEPT_DAYS: Final = 2


class Ledger:
    """The ledger of model calls of one gateway. Call `open` before the first run."""

    def __init__(
        self, store: Store, config: Callable[[], Config], clock: Clock, calls: CallLog
    ) -> None:
        self._store = store
        self._calls = calls
        self._config = config
        self._clock = clock
        self._calendar = Calendar()
        self._used: dict[str, dict[str, Sums]] = {}
        self._warned: dict[str, str] = {}
        self._closed = "it was not read yet"
        self.meter = Meter(store, config, self._present)
        """Counts usage for the limits of runs and days."""

    async def open(self) -> None:
        """Reads the usage of the last days. If that fails, `allow` refuses runs with a budget."""
        first = str(self._today() - timedelta(days=_KEPT_DAYS))
        try:
            await self._book_unbooked()
            sums_by_day = await self._store.read(
                lambda reader: usage.by_day_and_agent(reader, first)
            )
            self._warned = await self._store.read(usage.warned)
            await self.meter.open()
        except StoreFailedError as error:
            logger.exception("the ledger of model calls cannot be read")
            self._closed = str(error)
            return
        for (on, agent), sums in sums_by_day.items():
            self._add(on, agent, sums)
        self._closed = ""

    def book(self, call: ModelCallEnded) -> None:
        """Books a call in the next unit that is written, usually that of its response."""
        error, used = call.error, call.usage
        tokens = used.input + used.output + used.cache_read + used.cache_write
        booked = self._row(
            call.target,
            provider=call.provider,
            model=call.model,
            profile=call.profile,
            usage=used,
            priced=call.priced,
            outcome=_outcome(error),
            counted=tokens > 0 or _bills_nothing(error),
            seconds=call.seconds,
            call_id=call.call_id or self._calls.new_id(),
        )
        self._calls.end(booked)
        sums = usage.sums_of(booked)
        self._add(booked.day, booked.agent, sums)
        self.meter.called(booked.run_id, sums)
        # A complete answer is written next, with this row; a failed call needs a unit for its row.
        write = self._store.ride if error is None else self._store.post
        write(lambda unit: usage.book(unit, booked))

    def begin(self, candidate: ModelCandidate, target: CallTarget) -> str:
        """Writes the begin of a call to the call log, outside the database; returns its id.

        If the process ends during the call, the next start books it as lost: the provider may have
        billed it, and its usage is unknown.
        """
        call_id = self._calls.new_id()
        self._calls.begin(
            self._row(
                target,
                provider=candidate.model.provider,
                model=candidate.model.id,
                profile=candidate.profile,
                usage=Usage(),
                priced=False,
                outcome=CallOutcome.LOST,
                counted=False,
                seconds=0.0,
                call_id=call_id,
            )
        )
        return call_id

    def _row(self, target: CallTarget, **call: Any) -> BookedCall:
        """Returns the row of a call that begins or ends now."""
        now = self._clock.now_ms()
        return BookedCall(
            at=now,
            day=str(self._day(now)),
            run_id=target.run_id or "",
            session_id=target.session_id,
            agent=target.agent,
            channel=target.channel or NOWHERE,
            purpose=target.purpose,
            **call,
        )

    async def _book_unbooked(self) -> None:
        """Books the calls that are in the call log of the last process but not in the database."""
        logged = await anyio.to_thread.run_sync(self._calls.read)
        if not logged:
            return
        missing = await self._store.read(lambda reader: usage.unbooked(reader, logged))
        if missing:
            logger.warning("%d model calls of the last process are booked now", len(missing))

            def book(unit: Unit) -> None:
                for call in missing:
                    usage.book(unit, call)

            await self._store.write(book)
        await anyio.to_thread.run_sync(self._calls.clear)

    def allow(self, target: CallTarget) -> None:
        """Returns if a run may call its model.

        Raises:
            BudgetError: today's budget is used up, or today's usage is unknown.
        """
        config = self._config()
        if not config.usage.budgets.set:
            return
        if self._closed:
            error = BudgetError(
                f"The usage of today is unknown: {self._closed}. As budgets are set"
                " (usage.budgets), no model is called."
            )
            error.remedy = "Run skerry doctor, which checks the database; then restart the gateway."
            raise error
        today = self._today()
        for state in budget_states(config.usage.budgets, self._on(today), target.agent):
            if state.refuses(target.purpose):
                zone = config.agents.defaults.user_timezone or host_zone()
                raise BudgetError(refusal(state, target.purpose, today, zone))

    def report(self) -> list[dict[str, Any]]:
        """Returns today's state of each budget, for `status` and `skerry usage`."""
        states = budget_states(self._config().usage.budgets, self._on(self._today()))
        if states and self._closed:
            text = f"No model is called: the usage cannot be read ({self._closed})."
            return [
                {"budget": state.path, "state": "unreadable", "message": text} for state in states
            ]
        return [
            {
                "budget": state.path,
                "state": state.level.name.lower(),
                "message": state.summary(),
                "share": round(state.share, 4),
                "cost": state.used.cost,
                "costLimit": state.budget.cost,
                "tokens": state.used.tokens,
                "tokenLimit": state.budget.tokens,
                "notIncluded": state.blind,
            }
            for state in states
        ]

    def warn(self, request: RunRequest) -> BudgetWarning | None:
        """Returns the warning for the owner at the end of this run, if it is due."""
        budgets = self._config().usage.budgets
        if not budgets.set or request.origin is not Origin.OWNER:
            return None
        if request.purpose is not Purpose.MESSAGE:
            return None
        today = self._today()
        states = budget_states(budgets, self._on(today), request.key.agent)
        due = warning(states, self._warned, today)
        if due is not None:
            self._warned.update(dict.fromkeys(due.names, due.day))
        return due

    def _present(self) -> tuple[str, Mapping[str, Sums]]:
        today = self._today()
        return str(today), self._on(today)

    def _on(self, today: date) -> dict[str, Sums]:
        return self._used.get(str(today), {})

    def _add(self, on: str, agent: str, sums: Sums) -> None:
        agents = self._used.get(on)
        if agents is None:
            agents = self._used[on] = {}
            for old in sorted(self._used)[: -_KEPT_DAYS - 1]:
                del self._used[old]
        agents[agent] = agents[agent].plus(sums) if agent in agents else sums

    def _today(self) -> date:
        return self._day(self._clock.now_ms())

    def _day(self, now: int) -> date:
        return self._calendar.day(now, self._config().agents.defaults.user_timezone)


def note_warned(unit: Unit, warned: BudgetWarning) -> None:
    """Records the warning, in the unit that stores it in the transcript."""
    for name in warned.names:
        usage.note_warned(unit, name, warned.day)


def _outcome(error: RunFailure | None) -> CallOutcome:
    if error is None:
        return CallOutcome.OK
    return CallOutcome.ABORTED if error is ABORTED else CallOutcome.ERROR


def _bills_nothing(error: RunFailure | None) -> bool:
    """Returns whether a failed call used no tokens: the provider refused the request."""
    return error is not None and error is not ABORTED and error.code != ModelStreamCutError.code
