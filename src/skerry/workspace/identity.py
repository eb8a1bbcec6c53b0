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
"""Bytes of a picture in the workspace; a larger one is not shown."""
_PICTURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
_KEYS: Final = ("name", "emoji", "creature", "vibe", "theme", "avatar")
_LONG: Final = 500
_LONGEST: Final = {"name": 50, "emoji": 16, "avatar": 200}
_LONGEST_FILE: Final = 65_536
"""Characters that are looked at. The names are in the first lines."""
_FRONT: Final = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_LINE: Final = re.compile(r"[-*\s]*+([A-Za-z]++)\**+\s*+:\**+(.*)")


def parsed(text: str) -> dict[str, str]:
    """Parses the identity keys of IDENTITY.md.

    They stand as `key: value` between two lines `---` at the begin, as seed 003 has them, or in a
    file without those as a list, `- **Name:** value`. What is empty, or longer than the
    configuration allows, is left out.
    """
    text = text[:_LONGEST_FILE].replace("\r\n", "\n")
    front = _FRONT.match(text)
    values: dict[str, str] = {}
    for line in (front[1] if front else text).split("\n"):
        matched = _LINE.fullmatch(line)
        if matched is None:
            continue
        key, value = matched[1].lower(), matched[2].strip().strip("\"'")
        unset = not value or value.startswith("_(")  # as other templates ask for it
        fits = len(value) <= _LONGEST.get(key, _LONG)
        if key in _KEYS and key not in values and fits and not unset:
            values[key] = value
    return values


def identity(config: Config, agent: AgentId, records: FileRecords) -> dict[str, str]:
    """Returns the identity of the agent, without empty keys. Reads a file.

    The configuration wins; its `identity.name` stands before `agents.list[].name`, and that before
    what the agent calls itself. A file that does not count as the owner's word says nothing: a
    stranger's text would be a name, or a picture, that people trust.
    """
    own = config.agents.by_id.get(agent)
    file = read_text(config.workspace(agent), IDENTITY, records)
    values = parsed(file.text) if file is not None and not file.doubt else {}
    if own is not None and own.name:
        values["name"] = own.name
    configured = own.identity if own is not None and own.identity is not None else IdentityConfig()
    configured_values = configured.model_dump(include=set(_KEYS))
    return {key: text for key in _KEYS if (text := configured_values.get(key) or values.get(key))}


def picture(workspace: Path, avatar: str) -> str | None:
    """Returns the avatar that a path in the workspace names as a `data:` address. Reads a file.

    None is what is no path, or not the path of a picture of at most 128 KiB.
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
