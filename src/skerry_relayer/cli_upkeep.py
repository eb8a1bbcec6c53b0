"""Runs the commands that look after the folder of a relayer: rewrap, backup, doctor."""

from argparse import Namespace
from dataclasses import asdict

import anyio

from skerry_relayer.blobs import FolderBlobs
from skerry_relayer.cli_accounts import opened
from skerry_relayer.database import SqliteDatabase
from skerry_relayer.doctor import Finding, examine
from skerry_relayer.folders import DATABASE, Folders
from skerry_relayer.schema import SQLITE, steps
from skerry_relayer.upkeep import Rewrap, Rewrapped, backup, upkeep


def rewrap(parsed: Namespace) -> object:
    """Draws new keys for all owners and wraps the keys of all blobs to them."""
    opened(parsed.dir).close()  # a folder without registry ends here with the remedy
    with upkeep(parsed.dir):
        done = anyio.run(_rewrap, parsed)
    return {
        "owners": done.owners,
        "rewrapped": done.blobs,
        "failed": done.failed,
        "droppedKeys": done.dropped,
    }


async def _rewrap(parsed: Namespace) -> Rewrapped:
    folders = Folders(parsed.dir)
    database = SqliteDatabase(folders.database / DATABASE, steps(SQLITE))
    with opened(parsed.dir) as registry:
        async with database:
            return await Rewrap(registry, database, FolderBlobs(folders.blobs)).run()


def copy(parsed: Namespace) -> object:
    """Copies the folder while the relayer serves."""
    done = backup(parsed.dir, parsed.target, with_keys=not parsed.without_keys)
    return {
        "folder": str(done.folder),
        "memories": done.memories,
        "blobs": done.blobs,
        "withKeys": done.with_keys,
    }


def doctor(parsed: Namespace) -> tuple[object, int]:
    """Examines the folder; returns the findings and exit code 1 when one is bad."""
    findings = examine(parsed.dir, deep=parsed.deep)
    code = 0 if all(finding.ok for finding in findings) else 1
    if parsed.json:
        return [asdict(finding) for finding in findings], code
    return "\n".join(map(_line, findings)), code


def _line(finding: Finding) -> str:
    mark = "ok " if finding.ok else "BAD"
    return f"{mark}  {finding.check}: {finding.text} {finding.remedy}".rstrip()
