"""The tool `read`: returns lines of a text file in the workspace, or a picture."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field

from skerry.features.files.parameters import PATH_ALIASES, FilePath, explained
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.errors import ToolError
from skerry.model.ids import AgentId
from skerry.model.origin import Origin
from skerry.model.skill import Skill, SkillSet, Tier
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.policy.file_gate import FileGate
from skerry.ports.tool import ToolContext
from skerry.runtime.late import pictures
from skerry.sdk.arguments import named

MAX_LINES: Final = 2000
MAX_CHARS: Final = 50_000
"""Maximum length of one result, in characters."""
LINE_BYTES: Final = 8192
"""Maximum length of one line in bytes; the rest is skipped, so that a file of one endless line does
not fill the memory."""
ALIASES: Final = {**PATH_ALIASES, "start": "offset", "lines": "limit"}
_PICTURES: Final = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")
_WEBP: Final = (b"RIFF", b"WEBP")


def no_skills(_: AgentId) -> SkillSet:
    """Returns no skills."""
    return SkillSet()


class ReadParams(BaseModel):
    """Parameters of `read`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: FilePath
    offset: int = Field(default=1, ge=1, le=1_000_000_000, description="First line, from 1.")
    limit: int = Field(default=400, ge=1, le=MAX_LINES, description="How many lines.")


class Read:
    """Reads plain files below the workspace, and files of skills by their absolute paths.

    Refuses links and other paths outside.

    Args:
        skills: Returns the skills of an agent, whose folders may be read.

    """

    reads_only = True

    own_errors = True
    verb = Verb.READ
    spec = ToolSpec(
        "read", "Read lines of a text file, or see a picture.", ReadParams.model_json_schema()
    )

    def __init__(self, skills: Callable[[AgentId], SkillSet] = no_skills) -> None:
        self._skills = skills

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the requested lines, each with its number, or the picture."""
        params = ReadParams.model_validate(named(arguments, ALIASES, ("path",)))
        if (skill := self._skill(params.path, context)) is not None:
            return await anyio.to_thread.run_sync(_read_skill, params, skill)
        return await anyio.to_thread.run_sync(_read, params, context)

    def _skill(self, path: str, context: ToolContext) -> Skill | None:
        """Returns the skill whose folder contains an absolute path; None for one in a workspace.

        Files of a workspace are opened by the rules of the workspace.
        """
        if not path.startswith("/") or context.caller is None:
            return None
        skills = self._skills(context.caller.key.agent).skills
        usable = (each for each in skills if each.is_eligible and each.tier is not Tier.WORKSPACE)
        return next((skill for skill in usable if Path(path).is_relative_to(skill.folder)), None)


def _read(params: ReadParams, context: ToolContext) -> ToolResult:
    with explained("read", params.path), context.workspace.look(params.path) as (file, opened):
        head = file.read(1024)
        file.seek(0)
        gate = context.workspace.rules
        if head.startswith(_PICTURES) or (head[:4], head[8:12]) == _WEBP:
            origin = gate.origin(opened, file, "") if isinstance(gate, FileGate) else Origin.TOOL
            return _picture(params.path, file, origin)
        text = _window(head, file, params)
        origin = gate.origin(opened, file, text) if isinstance(gate, FileGate) else Origin.TOOL
        return ToolResult(text, origin=origin)


def _read_skill(params: ReadParams, skill: Skill) -> ToolResult:
    """Reads a file of a skill, which is trusted: the owner or a checked plugin installed it."""
    inner = str(Path(params.path).relative_to(skill.folder))
    with explained("read", params.path), RootedFolder(skill.folder).look(inner) as (file, opened):
        head = file.read(1024)
        file.seek(0)
        origin = Origin.TOOL if opened.is_foreign else Origin.LOCAL
        return ToolResult(_window(head, file, params), origin=origin)


def _picture(path: str, file: BinaryIO, origin: Origin) -> ToolResult:
    file.seek(0)
    block, described = pictures.picture(path, file)
    return ToolResult(described, origin=origin, blocks=(block,))


def _window(head: bytes, file: BinaryIO, params: ReadParams) -> str:
    if b"\0" in head:
        raise ToolError(f"{params.path} is not a text file.")
    output: list[str] = []
    room = MAX_CHARS
    first, last = params.offset - 1, params.offset + params.limit
    lines = _lines(file)
    for number, line in enumerate(islice(lines, first, last - 1), params.offset):
        text = f"{number}: {line}"
        room -= len(text)
        if room < 0:
            output.append(f"[cut at {MAX_CHARS} characters; go on with offset={number}]")
            return "\n".join(output)
        output.append(text)
    if len(output) == params.limit and next(lines, None) is not None:
        output.append(f"[more lines follow; go on with offset={last}]")
    return "\n".join(output) or f"{params.path} has no line {params.offset}."


def _lines(file: BinaryIO) -> Iterator[str]:
    while chunk := file.readline(LINE_BYTES):
        text = chunk.decode("utf-8", "replace").rstrip()
        cut = False
        while not chunk.endswith(b"\n") and (chunk := file.readline(LINE_BYTES)):
            cut = cut or chunk != b"\n"
        yield f"{text} [line cut]" if cut else text
