"""Lists and undoes changes of the file tools, for the command line and the gateway."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from skerry.config.protected import gate
from skerry.config.root import Config
from skerry.features.files.journal import Change, Journal
from skerry.infra.clock import Clock
from skerry.infra.rooted_fs import RootedFolder
from skerry.policy.file_records import FileRecords


class ChangeSelection(Struct, frozen=True):
    """Filters of changes; an empty field matches all."""

    agent: str = ""
    session: str = ""
    turn: str = ""
    path: str = ""
    ids: frozenset[str] = frozenset()

    def takes(self, change: Change) -> bool:
        """Returns true when the change matches."""
        return (
            self.agent in {"", change.agent_id}
            and self.session in {"", change.session_key}
            and self.turn in {"", change.turn}
            and self.path in {"", change.path}
            and (not self.ids or change.id in self.ids)
        )


def journal_of(config: Config, clock: Clock) -> Journal:
    """Returns the stored changes of an installation."""
    return Journal(config.state_dir, clock.now_ms)


def chosen(journal: Journal, selection: ChangeSelection) -> list[Change]:
    """Returns the matching changes, newest first. Blocks."""
    return [change for change in journal.changes() if selection.takes(change)]


def last_turn(changes: Sequence[Change]) -> list[Change]:
    """Returns the changes of the newest change's turn; without a turn only the newest change."""
    if not changes:
        return []
    newest = changes[0]
    if not newest.turn:
        return [newest]
    return [change for change in changes if change.turn == newest.turn]


def undone(
    config: Config, journal: Journal, changes: Sequence[Change], records: FileRecords | None
) -> dict[str, Any]:
    """Reverts changes; returns the undone and the refused ones. Blocks.

    Without `records`, files whose old text is of others are refused: later runs would take it for
    the owner's.
    """
    rules = gate(config, records=records)

    def open_(change: Change) -> RootedFolder:
        workspace, origins = Path(change.workspace), change.old_origins
        workspaces = {path.resolve() for path in rules.workspaces}
        if workspace not in workspaces:
            raise ValueError("its workspace is no longer configured")
        if origins and records is None:
            raise ValueError(
                "its old text is of others, which only a running gateway records;"
                " start it and try again"
            )
        return RootedFolder(workspace, rules.for_gateway(origins))

    paths, refused = journal.undo(changes, open_)
    return {
        "undone": paths,
        "refused": [{"path": path, "reason": reason} for path, reason in refused],
    }


def row(change: Change) -> dict[str, Any]:
    """Returns a change in the form for clients."""
    return {
        "id": change.id,
        "at": change.at,
        "agentId": change.agent_id,
        "sessionKey": change.session_key,
        "turn": change.turn,
        "tool": change.tool,
        "kind": change.kind,
        "path": change.path,
    }
