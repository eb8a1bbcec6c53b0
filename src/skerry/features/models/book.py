"""Adds calls without a gateway to the ledger."""

import sqlite3

from skerry.config.root import Config
from skerry.infra.clock import SystemClock, day
from skerry.model.errors import StoreFailedError
from skerry.model.message import Usage
from skerry.model.run import Purpose
from skerry.ports.model import ModelInfo
from skerry.store import DATABASE, engine, usage
from skerry.store.state_schema import STEPS
from skerry.store.usage import BookedCall, CallOutcome


def book_trial(
    config: Config, model: ModelInfo, used: Usage, seconds: float, profile: str = ""
) -> bool:
    """Adds a call to the ledger; returns false when there is no ledger.

    A running gateway counts it towards its budgets after its next start.

    Raises:
        StoreFailedError: the ledger cannot be written.
    """
    now, tokens = SystemClock().now_ms(), used.input + used.output + used.cache_read
    call = BookedCall(
        at=now,
        day=str(day(now, config.agents.defaults.user_timezone)),
        run_id="",
        session_id="",
        agent=config.agents.default_id,
        channel="none",
        purpose=Purpose.TEST,
        provider=model.provider,
        model=model.id,
        profile=profile,
        usage=used,
        priced=model.cost.is_priced,
        outcome=CallOutcome.OK,
        counted=tokens + used.cache_write > 0,
        seconds=seconds,
    )
    path = config.state_dir / DATABASE
    if not path.exists():
        return False
    try:
        return engine.write_once(path, len(STEPS), lambda unit: usage.book(unit, call))
    except sqlite3.Error as error:
        raise StoreFailedError(f"The call was not added to the ledger: {error}.") from error
