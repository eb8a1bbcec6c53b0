"""Check of `skerry doctor` for the audit log."""

import anyio.to_thread

from skerry.features.audit.reading import read
from skerry.model.errors import StateError
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation
from skerry.store import audit


async def chain(installation: Installation) -> list[Check]:
    """Verifies the hash chain of the log."""
    try:
        report = await anyio.to_thread.run_sync(read, installation.state_dir, audit.verify)
    except StateError as error:
        remedy = "See the check of the database; `skerry backup verify` reads the copies."
        return [Check("audit", Level.WARNING, str(error), remedy)]
    if report is None:
        return []
    if report.broken is not None:
        message = f"the hash chain of the log is broken: {report.reason}."
        remedy = "A person or program changed the database; compare it with a backup."
        return [Check("audit", Level.FAILURE, message, remedy)]
    return [Check("audit", Level.OK, f"{report.entries} decisions, anchor {report.anchor}")]
