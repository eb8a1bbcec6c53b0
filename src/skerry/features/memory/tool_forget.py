"""The tool `memory_forget` and the command `/forget`.

What is forgotten is gone from the transcripts too, so nobody but the owner may bring it about: not
a model that has read words of anybody else.
"""

from typing import Any, Final

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from skerry.features.memory.service import Desk
from skerry.model.caller import Caller
from skerry.model.errors import SkerryError, ToolError
from skerry.model.inbound import PeerKind
from skerry.model.memory import MemorySource
from skerry.model.origin import Origin
from skerry.model.redaction import MAX_CHARS
from skerry.model.redaction_report import Forgotten, told
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.decide import effect
from skerry.ports.tool import ToolContext
from skerry.sdk.commands import CommandCall, CommandError

_PASSAGE: Final = 300
"""Characters of a passage that is near."""


class MemoryForgetParams(BaseModel):
    """Parameters of `memory_forget`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = Field(description="Words as they were said.", min_length=1, max_length=MAX_CHARS)


class MemoryForget:
    """Forgets what the owner wants forgotten."""

    spec = ToolSpec(
        "memory_forget",
        "Erase each sentence with these words, everywhere, for ever.",
        MemoryForgetParams.model_json_schema(),
    )

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def is_offered(self, caller: Caller) -> bool:
        """Returns whether only the owner is there to ask for it."""
        direct = caller.is_private and caller.chat is PeerKind.DIRECT
        return direct and self._desk.forgets is not None and self._desk.is_open(caller)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Forgets, and returns where it stood, what still holds it, and what is near to it."""
        params = MemoryForgetParams.model_validate(arguments)
        caller = context.caller
        if caller is None or not self.is_offered(caller):
            raise ToolError("Nothing was forgotten: only your owner may ask for it, alone.")
        decision = effect(context.actor, self.spec.name)
        if not decision.allowed:
            raise ToolError(
                f"Nothing was forgotten: {decision.reason}. Your owner can send: /forget WORDS"
            )
        try:
            done, near = await self._desk.forget(caller.key.agent, params.text, caller)
        except SkerryError as error:
            raise ToolError(f"It is not forgotten yet: {error}") from error
        found = told(done, near, shows=False, most=_PASSAGE)
        # What is near may have been said in a conversation, where a page of the web was read.
        said = any(hit.source is MemorySource.SESSIONS for hit in near)
        origin = Origin.TOOL if said else Origin.MEMORY
        return ToolResult(msgspec.json.encode(found).decode(), origin=origin)


class Forget:
    """Answers `/forget`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def run(self, call: CommandCall) -> str:
        """Forgets, and says where it stood."""
        if not call.arguments:
            raise CommandError("Say which words: `/forget Mill Road`. Their sentences go.")
        try:
            done, _ = await self._desk.forget(call.key.agent, call.arguments)
        except SkerryError as error:
            raise CommandError(str(error)) from error
        return summary(done)


def summary(done: Forgotten) -> str:
    """Summarises the erasure, for a chat (pure)."""
    parts = [
        f"{count} {one if count == 1 else several}"
        for count, one, several in (
            (len(done.lines), "statement in files", "statements in files"),
            (done.messages, "message", "messages"),
            (done.summaries, "summary", "summaries"),
            (done.replies, "reply", "replies"),
        )
        if count
    ]
    said = f"Forgotten: {', '.join(parts)}." if parts else "No text had these words."
    if done.left:
        said += f" It may stay in {', '.join(path for path, _ in done.left)}."
    if done.backups:
        names = ", ".join(backup.name for backup in done.backups)
        said += f" Backups that still have it: {names}."
    return said
