"""The tool `apply_patch`: changes of several files at once, all of them or none."""

import codecs
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio.to_thread
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from skerry.features.files.change_review import Changer
from skerry.features.files.diffs import FileDiff, details
from skerry.features.files.journal import Journal
from skerry.features.files.parameters import MAX_BYTES, encoded, explained
from skerry.features.files.patches import MAX_CHARS, FilePatch, PatchError, applied, parse
from skerry.model.errors import SkerryError, ToolError
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.policy.file_gate import FileGate
from skerry.ports.tool import ToolContext
from skerry.sdk.arguments import named


class ApplyPatchParams(BaseModel):
    """Parameters of `apply_patch`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: str = Field(
        description="*** Begin Patch, then *** Add|Update|Delete File: PATH, *** Move to: PATH,"
        " @@ hunks of ' ', '-', '+' lines, *** End Patch.",
        min_length=1,
        max_length=MAX_CHARS,
    )


class PatchStep(Struct, frozen=True):
    """One file to write, or to delete."""

    path: str
    old: bytes | None
    """Expected content; None for a file that must not exist."""
    new: bytes | None
    """New content; None for a file that is deleted."""
    origin: Origin = Origin.LOCAL
    """Origin of the file from which the new content was moved."""


class ApplyPatch:
    """Applies a patch to plain files below the workspace."""

    own_errors = True
    verb = Verb.WRITE
    spec = ToolSpec(
        "apply_patch", "Change several files by a patch.", ApplyPatchParams.model_json_schema()
    )

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal

    def writes(self, arguments: dict[str, Any]) -> list[str]:
        """Returns the files that a call changes; empty for an invalid patch."""
        text = named(arguments, {"patch": "input"}, ("input",)).get("input")
        try:
            files = parse(text) if isinstance(text, str) else []
        except PatchError:
            return []
        return [path for file in files for path in (file.path, file.move_to) if path]

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Applies the whole patch or nothing, and lists the files."""
        renamed = named(arguments, {"patch": "input"}, ("input",))
        params = ApplyPatchParams.model_validate(renamed)
        changer = Changer(context, "apply_patch", self._journal)
        return await anyio.to_thread.run_sync(_apply, params.input, context, changer)


def _apply(text: str, context: ToolContext, changer: Changer) -> ToolResult:
    try:
        files = parse(text)
        steps = [step for file in files for step in _steps(file, context)]
    except PatchError as error:
        raise ToolError(f"Cannot apply the patch: {error}") from error
    diffs = _carried_out(steps, changer)
    lines = [f"{'AMD'[('add', 'update', 'delete').index(diff.kind)]} {diff.path}" for diff in diffs]
    text = "Applied the patch:\n" + "\n".join(lines)
    return ToolResult(text, origin=Origin.LOCAL, details=details(diffs))


def _steps(file: FilePatch, context: ToolContext) -> list[PatchStep]:
    if file.kind == "add":
        text = "".join(line + "\n" for line in file.lines)
        return [PatchStep(file.path, None, encoded(text, file.path))]
    old, origin = _content(file.path, context)
    if file.kind == "delete":
        return [PatchStep(file.path, old, None)]
    mark = codecs.BOM_UTF8 if old.startswith(codecs.BOM_UTF8) else b""
    try:
        text = old[len(mark) :].decode()
    except UnicodeDecodeError as error:
        raise PatchError(f"{file.path} is not UTF-8 text.") from error
    new = mark + encoded(applied(text, file), file.path)
    if not file.move_to:
        return [PatchStep(file.path, old, new)]
    return [PatchStep(file.move_to, None, new, origin), PatchStep(file.path, old, None)]


def _content(path: str, context: ToolContext) -> tuple[bytes, Origin]:
    """Returns the content of a file, and the origin of its text."""
    rules, origin = context.workspace.rules, Origin.LOCAL
    with explained("apply_patch", path), context.workspace.look(path) as (file, opened):
        data = file.read(MAX_BYTES + 1)
        if isinstance(rules, FileGate):
            origin = rules.origin(opened, file, data.decode("utf-8", "replace"))
    if len(data) > MAX_BYTES:
        raise PatchError(f"{path} has more than {MAX_BYTES} bytes.")
    return data, origin


def _carried_out(steps: list[PatchStep], changer: Changer) -> list[FileDiff]:
    """Applies all steps; when one fails, it reverts the steps before it."""
    applied: list[tuple[PatchStep, FileDiff]] = []
    try:
        for step in steps:
            file_diff = _step(step, changer)
            applied.append((step, file_diff))
    except SkerryError as error:
        for step, _ in reversed(applied):
            try:
                _step(PatchStep(step.path, step.new, step.old), changer)
            except SkerryError as second:
                raise ToolError(
                    f"{error} Then {step.path} could not be reverted: {second}"
                ) from error
        raise
    return [file_diff for _, file_diff in applied]


def _step(step: PatchStep, changer: Changer) -> FileDiff:
    if step.new is None:
        return changer.remove(step.path, step.old or b"")
    change = _only(step.path, step.old, step.new)
    return changer.replace(step.path, change, origin=step.origin)


def _only(path: str, old: bytes | None, new: bytes) -> Callable[[bytes | None], bytes]:
    """Returns a change that only applies to the content `old`."""
    return partial(_checked, path, old, new)


def _checked(path: str, old: bytes | None, new: bytes, present: bytes | None) -> bytes:
    if present == old:
        return new
    if old is None:
        raise ToolError(f"Cannot add {path}: it exists. Update it, or delete it first.")
    raise ToolError(f"Cannot change {path}: it changed meanwhile. Read it again.")
