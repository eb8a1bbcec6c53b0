"""Check of `skerry doctor` for the retention."""

import sqlite3
from contextlib import closing

from skerry.config.root import Config
from skerry.infra import sqlite
from skerry.infra.clock import SystemClock
from skerry.infra.untrusted_json import UNREADABLE
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation
from skerry.sessions.retention import plan, summary
from skerry.store import DATABASE, Reader, retention


async def growth(installation: Installation) -> list[Check]:
    """Returns the number of sessions, and of sessions beyond the limits that are only reported."""
    if installation.config is None:
        return []
    return [retention_check(installation.config, SystemClock().now_ms())]


def retention_check(config: Config, now: int) -> Check:
    """Checks for sessions beyond the limits of `session.maintenance` that are only reported."""
    name, file = "kept conversations", config.state_dir / DATABASE
    if not file.exists():
        return Check(name, Level.OK, "none yet.")
    try:
        with closing(sqlite.connect(file, read_only=True)) as connection:
            rows = retention.retained(Reader(connection))
    except (sqlite3.Error, *UNREADABLE):
        return Check(name, Level.OK, "sessions cannot be counted; see the check of the database.")
    maintenance = config.session.maintenance
    due = plan(rows, maintenance, now)
    if maintenance.mode != "warn" or not (due.archive or due.remove):
        return Check(name, Level.OK, f"{len(rows)} sessions")
    message = f"{len(rows)} sessions; {summary(due, completed=False)}."
    remedy = "Set session.maintenance.mode to enforce to remove them, or keep it."
    return Check(name, Level.WARNING, message, remedy)
