"""The first-run ritual: BOOTSTRAP.md, for the first conversation alone, until it is done.

The first private conversation takes it, by name in a file that no tool can write, so that it keeps
it over resets and restarts. It is done when BOOTSTRAP.md is gone or holds nothing: a model cannot
delete files, so it writes the file empty, and the gateway deletes it.
"""

import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from skerry.agent.files import read_text
from skerry.agent.workspace import BOOTSTRAP, is_private
from skerry.infra.atomic import write_atomic
from skerry.model.ids import SessionKey
from skerry.model.run import Purpose, RunRequest

logger = logging.getLogger(__name__)

CLAIM: Final = Path(".skerry") / "first-session"


class Ritual:
    """Which conversation does the ritual, by workspace."""

    def __init__(self) -> None:
        self._owners: dict[Path, str] = {}

    def belongs(self, workspace: Path, request: RunRequest, *, claim: bool = True) -> bool:
        """Return whether the run's conversation does the ritual; the first that may takes it.

        Without `claim` nobody takes it, and whoever could is told so. Costs a look at the file.
        """
        if not is_private(request) or not (workspace / BOOTSTRAP).is_file():
            return False
        owner = self._owners.get(workspace) or _claimed(workspace)
        if not owner:
            if request.purpose is not Purpose.MESSAGE:
                return False
            if not claim:
                return True
            owner = str(request.key)
            write_atomic(workspace / CLAIM, owner.encode())
        self._owners[workspace] = owner
        return owner == str(request.key)

    def finish(self, workspace: Path, key: SessionKey) -> bool:
        """Delete the file if the conversation of `key` has emptied it; return whether it did."""
        if self._owners.get(workspace) != str(key):
            return False
        file = read_text(workspace, BOOTSTRAP)
        if file is not None and (file.problem or file.text.strip()):
            return False
        with suppress(FileNotFoundError):
            (workspace / BOOTSTRAP).unlink()
        with suppress(FileNotFoundError):
            (workspace / CLAIM).unlink()
        del self._owners[workspace]
        logger.info("the first-run ritual in %s is done", workspace)
        return True


def _claimed(workspace: Path) -> str:
    try:
        return (workspace / CLAIM).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
