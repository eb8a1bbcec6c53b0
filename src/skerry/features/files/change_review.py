"""Changes files for the tools atomically, with a stored copy and a diff."""

from collections.abc import Callable
from contextlib import ExitStack

from msgspec.structs import replace

from skerry.features.files.diffs import FileDiff, diff
from skerry.features.files.journal import Journal
from skerry.features.files.parameters import MAX_BYTES, explained
from skerry.infra.rooted_fs import Opened, RootedFolder
from skerry.model.errors import ToolError
from skerry.model.origin import Origin
from skerry.policy.file_gate import FileGate
from skerry.policy.file_kinds import LASTING, kind_of
from skerry.ports.tool import ToolContext


class Changer:
    """Applies the changes of one tool call."""

    def __init__(self, context: ToolContext, tool: str, journal: Journal | None) -> None:
        self._context = context
        self._tool = tool
        self._journal = journal

    def replace(
        self,
        path: str,
        change: Callable[[bytes | None], bytes],
        *,
        whole: bool = False,
        origin: Origin = Origin.LOCAL,
    ) -> FileDiff:
        """Replaces a file's content by `change(old)`; `old` is None for a new file.

        `origin` is that of the file from which the new content was moved.
        """
        diffs: list[FileDiff] = []
        with explained(self._tool, path), ExitStack() as copies:

            def changed(old: bytes | None) -> bytes:
                new = change(old)
                diffs.append(diff(path, old, new))
                self._keep(copies, path, old, new)
                return new

            workspace = _carrying(self._context.workspace, origin)
            workspace.replace(path, changed, max_bytes=MAX_BYTES, whole=whole)
        return diffs[0]

    def remove(self, path: str, expected: bytes) -> FileDiff:
        """Deletes a file whose content is `expected`."""
        with explained(self._tool, path), ExitStack() as copies:

            def check(old: bytes) -> None:
                if old != expected:
                    raise ToolError(f"{path} changed meanwhile. Read it again.")
                self._keep(copies, path, old, None)

            self._context.workspace.remove(path, check, max_bytes=MAX_BYTES)
        return diff(path, expected, None)

    def _keep(self, copies: ExitStack, path: str, old: bytes | None, new: bytes | None) -> None:
        if self._journal is None or old == new or self._is_kept(path):
            return
        copies.enter_context(self._journal.saved(self._context, self._tool, path, old, new))

    def _is_kept(self, path: str) -> bool:
        """Returns true when later runs read the file; no copy of such a file is stored.

        Text that the owner erased from the memory must not remain in a copy, and an undo must not
        restore text that a later run would obey without a record of its origin.
        """
        rules = self._context.workspace.rules
        if not isinstance(rules, FileGate):
            return False
        target = self._context.workspace.root.resolve() / path
        return kind_of(Opened(target), rules.workspaces) in LASTING


def _carrying(workspace: RootedFolder, origin: Origin) -> RootedFolder:
    """Returns the workspace for writing text of a file whose text has this origin."""
    rules = workspace.rules
    return (
        replace(workspace, rules=rules.carrying(origin))
        if isinstance(rules, FileGate)
        else workspace
    )
