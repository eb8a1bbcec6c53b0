"""Citation of a passage, for people (pure). Source: seed 003, "Citations"."""

from skerry.config.memory import Citations
from skerry.model.inbound import PeerKind


def citation(path: str, start_line: int, end_line: int) -> str:
    """Returns `path#L3`, or `path#L3-L9` for a passage of several lines."""
    end = f"-L{end_line}" if end_line > start_line else ""
    return f"{path}#L{start_line}{end}"


def cited(text: str, source: str) -> str:
    """Returns the text with its citation on a separate line."""
    return f"{text}\n\nSource: {source}"


def shows(mode: Citations, chat: PeerKind) -> bool:
    """Returns whether passages are cited in such a chat."""
    return mode is Citations.ON or (mode is Citations.AUTO and chat is PeerKind.DIRECT)
