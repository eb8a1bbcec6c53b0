"""Check of `skerry doctor` for the backups."""

from collections.abc import Iterable
from datetime import UTC, datetime

from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation
from skerry.store import backups


async def backups_check(installation: Installation) -> Iterable[Check]:
    """Returns the number of backups, and the time of the newest."""
    name = "database backups"
    copies = backups.every(installation.state_dir)
    if not copies:
        return [Check(name, Level.OK, "none yet; a running gateway makes one each day.")]
    newest = datetime.fromtimestamp(copies[0].made_at / 1000, UTC).astimezone()
    message = f"{len(copies)}, the newest of {newest:%Y-%m-%d %H:%M}"
    return [Check(name, Level.OK, message)]
