"""Replacement in an answer for a file that the model names with `MEDIA:`.

Only files of the agent's workspace and of the media directory count, opened beneath them without
following a link. Platforms take texts only as yet, so what counts is named, not sent along.
"""

import logging
from pathlib import Path, PurePath
from typing import Final

from skerry.config.protected import gate
from skerry.config.root import Config
from skerry.infra.rooted_fs import Beneath, EscapeError
from skerry.model.ids import AgentId
from skerry.replies.shaping import named

logger = logging.getLogger(__name__)

MEDIA: Final = "media"
"""The directory of the state directory where files for people may be."""
_WEB: Final = ("http://", "https://")


def shown_file(config: Config, agent: AgentId, reference: str) -> str:
    """Returns in words what an answer shows of a file."""
    if reference.lower().startswith(_WEB):
        return f"📎 {reference}"
    roots = (config.workspace(agent), config.state_dir / MEDIA)
    reason = "there is no such file"
    for root in roots:
        try:
            path = _beneath(reference, root)
            with Beneath(root, gate(config)).open(path):
                return named(reference)
        except EscapeError as error:
            logger.warning("a file of an answer is not shown: %s", error)
            reason = "it is not in the workspace"
        except OSError:
            continue
    return f"📎 {PurePath(reference).name} (not sent: {reason})"


def _beneath(reference: str, root: Path) -> str:
    """Returns the path relative to the root, where it lies beneath it by its name."""
    path = PurePath(reference.removeprefix("file://"))
    if path.is_absolute() and path.is_relative_to(root):
        return str(path.relative_to(root))
    return str(path)
