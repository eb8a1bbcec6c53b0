"""Changes files for the tools: whole or not at all, with a stored copy and a diff."""

from collections.abc import Callable
from contextlib import ExitStack

from skerry.features.files.diffs import FileDiff, diff
from skerry.features.files.journal import Journal
from skerry.features.files.parameters import MAX_BYTES, explained
from skerry.infra.rooted_fs import Opened
from skerry.model.errors import ToolError
from skerry.policy.file_gate import FileGate
from skerry.policy.file_kinds import LASTING, kind_of
from skerry.ports.tool import ToolContext


class Changer:
    """Makes the changes of one call of a tool."""

    def __init__(self, context: ToolContext, tool: str, journal: Journal | None) -> None:
        self._context = context
        self._tool = tool
        self._journal = journal

    def replace(
        self, path: str, change: Callable[[bytes | None], bytes], *, whole: bool = False
    ) -> FileDiff:
        """Gives a file new content; `change` makes it of the old, None for a new file."""
        made: list[FileDiff] = []
        with explained(self._tool, path), ExitStack() as copies:

            def changed(old: bytes | None) -> bytes:
                new = change(old)
                made.append(diff(path, old, new))
                self._keep(copies, path, old, new)
                return new

            self._context.workspace.replace(path, changed, max_bytes=MAX_BYTES, whole=whole)
        return made[0]

    def remove(self, path: str, expected: bytes) -> FileDiff:
        """Deletes a file that holds `expected`."""
        with explained(self._tool, path), ExitStack() as copies:

            def check(old: bytes) -> None:
                if old != expected:
                    raise ToolError(f"{path} was changed meanwhile. Read it again.")
                self._keep(copies, path, old, None)

            self._context.workspace.remove(path, check, max_bytes=MAX_BYTES)
        return diff(path, expected, None)

    def _keep(self, copies: ExitStack, path: str, old: bytes | None, new: bytes | None) -> None:
        if self._journal is None or old == new or self._is_kept(path):
            return
        copies.enter_context(self._journal.kept(self._context, self._tool, path, old, new))

    def _is_kept(self, path: str) -> bool:
        """Returns whether later runs read the file: then no copy of it is stored.

        What the owner erases from the memory is gone, and no undo puts words back that a later run
        would obey without a record of who wrote them.
        """
        rules = self._context.workspace.rules
        if not isinstance(rules, FileGate):
            return False
        target = self._context.workspace.root.resolve() / path
        return kind_of(Opened(target), rules.workspaces) in LASTING
