"""Identity of an agent: from the configuration, else from its IDENTITY.md."""

import base64
import re
from pathlib import Path
from typing import Final

from skerry.config.agents import IdentityConfig
from skerry.config.root import Config
from skerry.infra.rooted_fs import EscapeError, RootedFolder
from skerry.model.ids import AgentId
from skerry.policy.file_records import FileRecords
from skerry.workspace.prompt_files import IDENTITY, read_text

MAX_AVATAR: Final = 128 * 1024
"""Limit on a picture in the workspace, in bytes; a larger one is not shown."""
_PICTURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
_KEYS: Final = ("name", "emoji", "creature", "vibe", "theme", "avatar")
_LONG: Final = 500
_MAX_CHARS: Final = {"name": 50, "emoji": 16, "avatar": 200}
_MAX_FILE_CHARS: Final = 65_536
"""Limit on the searched text, in characters. The keys are in the first lines."""
_FRONT: Final = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_LINE: Final = re.compile(r"[-*\s]*+([A-Za-z]++)\**+\s*+:\**+(.*)")


def parsed(text: str) -> dict[str, str]:
    """Parses the identity keys of IDENTITY.md.

    The keys are lines `key: value` between two lines `---` at the start (seed 003), or, in a file
    without those lines, a list `- **Name:** value`. Empty values, and values longer than the
    configuration allows, are left out.
    """
    text = text[:_MAX_FILE_CHARS].replace("\r\n", "\n")
    front = _FRONT.match(text)
    values: dict[str, str] = {}
    for line in (front[1] if front else text).split("\n"):
        matched = _LINE.fullmatch(line)
        if matched is None:
            continue
        key, value = matched[1].lower(), matched[2].strip().strip("\"'")
        unset = not value or value.startswith("_(")  # a placeholder of other templates
        fits = len(value) <= _MAX_CHARS.get(key, _LONG)
        if key in _KEYS and key not in values and fits and not unset:
            values[key] = value
    return values


def identity(config: Config, agent: AgentId, records: FileRecords) -> dict[str, str]:
    """Returns the identity of the agent, without empty keys. Reads a file.

    The configuration wins: first `identity.name`, then `agents.list[].name`, then the file. A file
    that does not count as the owner's text is ignored: people would trust a name or a picture that
    a stranger wrote.
    """
    entry = config.agents.by_id.get(agent)
    file = read_text(config.workspace(agent), IDENTITY, records)
    values = parsed(file.text) if file is not None and not file.doubt else {}
    if entry is not None and entry.name:
        values["name"] = entry.name
    configured = entry.identity if entry is not None and entry.identity else IdentityConfig()
    configured_values = configured.model_dump(include=set(_KEYS))
    return {key: text for key in _KEYS if (text := configured_values.get(key) or values.get(key))}


def picture(workspace: Path, avatar: str) -> str | None:
    """Reads the avatar at a path in the workspace; returns it as a `data:` URL.

    Returns None if `avatar` is not the path of a picture of at most 128 KiB.
    """
    if "://" in avatar or "." not in avatar:
        return None
    try:
        with RootedFolder(workspace).open(avatar) as file:
            data = file.read(MAX_AVATAR + 1)
    except (EscapeError, OSError):
        return None
    kind = next((kind for begin, kind in _PICTURES.items() if data.startswith(begin)), None)
    if kind is None or len(data) > MAX_AVATAR:
        return None
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
