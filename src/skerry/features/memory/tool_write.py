"""The tool `memory_write` and the command `/remember`.

What a model notes is read by every later run, so nothing comes in that the owner has not said: in a
conversation that has read words of anybody else, the model may write nothing. The owner's own word
is `/remember`, which no model reads before it is written.
"""

from typing import Any, Final

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from skerry.features.memory.results import gives_orders
from skerry.features.memory.service import Desk
from skerry.features.memory.writing import MAX_CHARS
from skerry.model.errors import SkerryError, ToolError
from skerry.model.origin import Origin
from skerry.model.provenance import tidy
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.decide import effect
from skerry.ports.tool import ToolContext
from skerry.sdk.commands import CommandCall, CommandError

_SHOWN: Final = 500
"""Characters of a refused note that the owner is shown to send."""


class MemoryWriteParams(BaseModel):
    """Parameters of `memory_write`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = Field(description="One fact, whole.", min_length=1, max_length=MAX_CHARS)
    section: str | None = Field(
        default=None,
        description="Heading in MEMORY.md; else the day's log.",
        min_length=1,
        max_length=100,
    )


class MemoryWrite:
    """Notes what the owner said."""

    spec = ToolSpec(
        "memory_write",
        "Note what your owner told you and is to last.",
        MemoryWriteParams.model_json_schema(),
    )

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.is_offered = desk.is_open

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Writes the note and says how it is taken out again."""
        params = MemoryWriteParams.model_validate(arguments)
        caller = context.caller
        if caller is None or not self._desk.is_open(caller):
            raise ToolError("No note was written: memory is not used in this conversation.")
        decision = effect(context.actor, self.spec.name)
        if not decision.allowed:
            raise ToolError(_refusal(params, decision.reason))
        if gives_orders(params.text):
            raise ToolError(
                "No note was written: it reads like an order to a model. Note the fact."
            )
        agent = caller.key.agent
        try:
            noted = await self._desk.write(
                agent, params.text, params.section, Origin.OWNER, str(caller.key)
            )
        except SkerryError as error:
            raise ToolError(f"No note was written: {error}") from error
        told = {
            "id": noted.id,
            "path": noted.path,
            "line": noted.start_line,
            "undo": f"skerry memory undo {noted.id}",
        }
        return ToolResult(msgspec.json.encode(told).decode(), origin=Origin.MEMORY)


def _refusal(params: MemoryWriteParams, reason: str) -> str:
    """Returns why nothing was noted, and what the owner can send so that it is."""
    words = " ".join(tidy(params.text).split())[:_SHOWN]
    return (
        f"No note was written: {reason}. If it is to be remembered, your owner says so; show them"
        f" this line to send: /remember {words}"
    )


class Remember:
    """Answers `/remember`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def run(self, call: CommandCall) -> str:
        """Writes the owner's words into the log of the day."""
        if not call.arguments:
            raise CommandError("Say what: `/remember The dentist is in Mill Road.`")
        try:
            noted = await self._desk.write(
                call.key.agent, call.arguments, None, Origin.OWNER, str(call.key)
            )
        except SkerryError as error:
            raise CommandError(str(error)) from error
        return (
            f"Noted in `{noted.path}`, line {noted.start_line}."
            f" `skerry memory undo {noted.id}` takes it out again."
        )
