"""Runs the commands of QMD (collection, update, embed, query), each with a time limit."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import anyio.to_thread
import msgspec

from skerry.features.memory.qmd_collections import QmdCollection, changes, listed
from skerry.features.memory.qmd_process import QmdError, checked, run
from skerry.features.memory.qmd_program import QmdHome, QmdProgram
from skerry.infra.atomic import write_atomic
from skerry.infra.process import Finished
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.memory import SyncReport

COMMAND_SECONDS: Final = 30.0
"""Time limit for commands that neither search nor index (openclaw-behaviour 10.10)."""
_INDEXED: Final = re.compile(
    r"^Indexed: (\d+) new, (\d+) updated, (\d+) unchanged, (\d+) removed", re.MULTILINE
)


class QmdUnknownError(QmdError):
    """QMD lacks a registered collection: its index was removed."""


@dataclass(frozen=True, slots=True)
class QmdCommands:
    """Runs the program for one agent."""

    program: QmdProgram
    home: QmdHome

    async def run(self, arguments: Sequence[str], seconds: float) -> Finished:
        """Runs one command and returns its result.

        Raises:
            QmdUnknownError: QMD lacks a collection.
            QmdError: the command failed, or took longer than `seconds`.
        """
        finished = await run(
            # Names the index, so that QMD does not use a folder `.qmd` above this one.
            [str(self.program.path), *arguments, "--index", "index"],
            environ=self.program.environ,
            folder=self.home.folder,
            seconds=seconds,
        )
        if finished.code and "Collection not found" in finished.err:
            raise QmdUnknownError(f"QMD lost its index: {finished.err}")
        return checked(finished, f"qmd {arguments[0]}")

    async def bind(self, collections: Sequence[QmdCollection]) -> None:
        """Registers exactly these collections in QMD, with their folders and patterns.

        Raises:
            QmdError: a command failed.
        """
        names = listed((await self._collection("list")).out.decode(errors="replace"))
        record = await anyio.to_thread.run_sync(_record, self.home.record)
        plan = changes(collections, names, record)
        for name in plan.remove:
            await self._collection("remove", name)
            record.pop(name, None)
        for collection in plan.add:
            await self._collection(
                "add", str(collection.root), "--name", collection.name, "--mask", collection.mask
            )
            record[collection.name] = [str(collection.root), collection.mask]
            await anyio.to_thread.run_sync(
                partial(write_atomic, self.home.record, msgspec.json.encode(record))
            )

    async def update(self, seconds: float) -> SyncReport:
        """Updates QMD's index; returns the sums of the counts that it prints per collection.

        Raises:
            QmdError: the command failed, or took longer than `seconds`.
        """
        text = (await self.run(["update"], seconds)).out.decode(errors="replace")
        rows = [tuple(map(int, row)) for row in _INDEXED.findall(text)]
        sums = [sum(column) for column in zip(*rows, strict=True)] or [0, 0, 0, 0]
        return SyncReport(added=sums[0], changed=sums[1], unchanged=sums[2], removed=sums[3])

    async def _collection(self, *arguments: str) -> Finished:
        return await self.run(["collection", *arguments], COMMAND_SECONDS)


def _record(file: Path) -> dict[str, list[str]]:
    """Returns folder and pattern of each registered collection; empty if the file is unreadable."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, list[str]])
    except (OSError, *UNREADABLE):
        return {}
