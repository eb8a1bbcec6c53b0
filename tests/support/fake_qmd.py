"""A program `qmd` for tests: a process that indexes and answers, or misbehaves."""

import json
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_PROGRAM: Final = Path(__file__).with_name("qmd_program.py")
"""Never imported: it reads its environment as it starts."""


class FakeQmd:
    """The program in a folder of its own, with a `node` beside it.

    `behave(query="hang")` makes a command misbehave from then on: `hang`, `segfault`, `garbage`
    (words before the JSON), `wrong` (JSON of another form), `flood` (too much of it), `missing`
    (the collection is not known), `orphan` (a grandchild stays), `die`. The commands are
    `collection`, `update`, `embed`, `query`, `mcp`, and `asked` for a query to its server.
    """

    def __init__(self, folder: Path, *, node: str = "v24.1.0") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.command = folder / "qmd"
        start = f"exec {shlex.quote(sys.executable)} -IS {shlex.quote(str(_PROGRAM))}"
        marked = f"QMD_FAKE={shlex.quote(str(folder))}"
        self._script(self.command, f'export {marked} # runs on node\n{start} "$@"')
        self.use_node(node)

    def use_node(self, version: str) -> None:
        """Sets the version of the `node` beside it."""
        self._script(self.folder / "node", f"echo {shlex.quote(version)}")

    def behave(self, **commands: str) -> None:
        """Has these commands misbehave, and all others not."""
        (self.folder / "behaviour.json").write_text(json.dumps(commands), "utf-8")

    def calls(self, command: str = "") -> Sequence[Any]:
        """Returns the arguments of each call, less the command; of all calls with the command."""
        lines = self._lines("calls")
        return [line[1:] for line in lines if line[0] == command] if command else lines

    def running(self) -> list[int]:
        """Returns those of its processes, and of their children, that have not ended."""
        return [pid for pid in self._lines("pids") if _runs(pid)]

    @property
    def environ(self) -> dict[str, str]:
        """Returns an environment that has little more than a PATH."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder)}

    def _lines(self, name: str) -> list[Any]:
        with suppress(FileNotFoundError):
            text = (self.folder / name).read_text("utf-8")
            return [json.loads(line) for line in text.splitlines()]
        return []

    @staticmethod
    def _script(path: Path, text: str) -> None:
        path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
        path.chmod(0o755)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except (ProcessLookupError, FileNotFoundError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"  # one that ended and waits to be noticed
