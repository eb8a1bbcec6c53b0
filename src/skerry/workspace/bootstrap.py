"""The first-run ritual: BOOTSTRAP.md, for the first conversation alone, until it is done.

The first private conversation takes it, by name in a file that no tool can write, so that it keeps
it over resets and restarts. It is done when BOOTSTRAP.md is gone or holds nothing: a model cannot
delete files, so it writes the file empty, and the gateway deletes it.
"""

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from skerry.infra.atomic import write_atomic
from skerry.model.ids import SessionKey
from skerry.model.run import Purpose, RunRequest
from skerry.workspace.files import read_text
from skerry.workspace.prompt_files import BOOTSTRAP, is_private

logger = logging.getLogger(__name__)

BLANK: Final = 16
"""Bytes that a file may have and still hold nothing but white space, as models leave it."""
CLAIM: Final = Path(".skerry") / "first-session"


class Ritual:
    """Conversation that does the ritual, by workspace."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def belongs(self, workspace: Path, request: RunRequest, *, claim: bool = True) -> bool:
        """Returns whether the run's conversation does the ritual; the first that may takes it.

        Without `claim` nobody takes it, and whoever could is told so. Costs a look at the file,
        and nothing in a conversation beside the one that has it.
        """
        root = str(workspace)
        known = self._owners.get(root)
        if known is not None and known != str(request.key):
            return False
        if not is_private(request) or _size(root) is None:
            return False
        owner = known or _claimed(workspace)
        if not owner:
            if request.purpose is not Purpose.MESSAGE:
                return False
            if not claim:
                return True
            owner = str(request.key)
            write_atomic(workspace / CLAIM, owner.encode())
        self._owners[root] = owner
        return owner == str(request.key)

    def finish(self, workspace: Path, key: SessionKey) -> bool:
        """Deletes the file if the conversation of `key` has emptied it; returns whether it did."""
        root = str(workspace)
        if root not in self._owners or self._owners[root] != str(key):
            return False
        if (_size(root) or 0) > BLANK:
            return False
        file = read_text(workspace, BOOTSTRAP)
        if file is not None and (file.problem or file.text.strip()):
            return False
        with suppress(FileNotFoundError):
            (workspace / BOOTSTRAP).unlink()
        with suppress(FileNotFoundError):
            (workspace / CLAIM).unlink()
        del self._owners[root]
        logger.info("the first-run ritual in %s is done", workspace)
        return True


def _size(workspace: str) -> int | None:
    """Returns how many bytes BOOTSTRAP.md has, or None where there is none."""
    try:
        return os.lstat(f"{workspace}/{BOOTSTRAP}").st_size
    except OSError:
        return None


def _claimed(workspace: Path) -> str:
    try:
        return (workspace / CLAIM).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
