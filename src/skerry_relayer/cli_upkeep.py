"""Runs the maintenance commands for the folder of a relayer: rewrap, backup, doctor."""

from argparse import Namespace
from contextlib import AsyncExitStack
from dataclasses import asdict

import anyio

from skerry_relayer.assembly import opened_blobs, opened_database
from skerry_relayer.cli_accounts import opened
from skerry_relayer.doctor import Finding, examine
from skerry_relayer.errors import MissingError, RefusedError
from skerry_relayer.folders import Folders, locations_of
from skerry_relayer.keys.registry import is_registry
from skerry_relayer.keys.server import SOCKET
from skerry_relayer.keys.server import run as run_key_server
from skerry_relayer.upkeep import OwnerRewrap, RewrapReport, backup, upkeep


def rewrap(parsed: Namespace) -> object:
    """Generates new keys for all owners and wraps the keys of all blobs to them."""
    opened(parsed.dir).close()  # raises an error with a remedy if the folder has no registry
    with upkeep(parsed.dir):
        report = anyio.run(_rewrap, parsed)
    return {
        "owners": report.owners,
        "rewrapped": report.blobs,
        "failed": report.failed,
        "droppedKeys": report.dropped,
    }


async def _rewrap(parsed: Namespace) -> RewrapReport:
    folders = Folders(parsed.dir)
    locations = locations_of(parsed.dir)
    if any(locations) and parsed.database is None:
        raise RefusedError(
            "Blobs of this relayer are not in its folder alone. Give --database as for `serve`, "
            "with an empty text for its own file."
        )
    async with AsyncExitStack() as stack:
        registry = stack.enter_context(opened(parsed.dir))
        database, _ = await opened_database(stack, folders, parsed.database or "")
        stores = [await opened_blobs(stack, folders, location, database) for location in locations]
        return await OwnerRewrap(registry, database, stores).run()


def copy(parsed: Namespace) -> object:
    """Copies the folder; the relayer may run meanwhile."""
    copied = backup(parsed.dir, parsed.target, with_keys=not parsed.without_keys)
    return {
        "folder": str(copied.folder),
        "memories": copied.memories,
        "blobs": copied.blobs,
        "withKeys": copied.with_keys,
    }


def doctor(parsed: Namespace) -> tuple[object, int]:
    """Checks the folder; returns the findings, with exit code 1 if one of them is a problem."""
    findings = examine(parsed.dir, deep=parsed.deep)
    code = 0 if all(finding.ok for finding in findings) else 1
    if parsed.json:
        return [asdict(finding) for finding in findings], code
    return "\n".join(map(_line, findings)), code


def _line(finding: Finding) -> str:
    mark = "ok " if finding.ok else "BAD"
    return f"{mark}  {finding.check}: {finding.text} {finding.remedy}".rstrip()


def key_server(parsed: Namespace) -> tuple[object, int]:
    """Runs the key server of the folder until it gets a signal."""
    keys = Folders(parsed.dir).keys
    if not is_registry(keys):
        raise MissingError(f"There is no relayer in {parsed.dir}. Run `skerry relayer init` first.")
    return None, run_key_server(keys, parsed.socket or keys / SOCKET)
