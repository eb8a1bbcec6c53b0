"""Checks of `skerry doctor` of the retention."""

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
    """Returns the number of sessions, and those over the limits that are only reported."""
    if installation.config is None:
        return []
    return [kept(installation.config, SystemClock().now_ms())]


def kept(config: Config, now: int) -> Check:
    """Returns whether conversations are over the limits of `session.maintenance`, and only told."""
    name, file = "kept conversations", config.state_dir / DATABASE
    if not file.exists():
        return Check(name, Level.OK, "none yet.")
    try:
        with closing(sqlite.connect(file, read_only=True)) as connection:
            rows = retention.retained(Reader(connection))
    except (sqlite3.Error, *UNREADABLE):
        return Check(name, Level.OK, "they cannot be counted; see the database.")
    maintenance = config.session.maintenance
    due = plan(rows, maintenance, now)
    if maintenance.mode != "warn" or not (due.archive or due.remove):
        return Check(name, Level.OK, f"{len(rows)} sessions")
    message = f"{len(rows)} sessions; {summary(due, completed=False)}."
    remedy = "Set session.maintenance.mode to enforce, or leave it: nothing is removed unasked."
    return Check(name, Level.WARNING, message, remedy)
