"""The silent turn before a compaction: the model notes what is to last, and nobody sees it.

Source: openclaw-behaviour 7.5. The only tool of this turn appends to the day's notes, so no
earlier note can be lost by it.
"""

import logging
from collections.abc import Sequence
from typing import Any, Final

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field

from skerry.config.agents import AgentDefaults
from skerry.infra.clock import day
from skerry.infra.rooted_fs import EscapeError
from skerry.model import message
from skerry.model.errors import ModelOverflowError, ToolError
from skerry.model.event import LoopEvent
from skerry.model.ids import SessionKey, SessionKind
from skerry.model.memory import unverified
from skerry.model.message import CHARS_PER_TOKEN, Message, ToolCall, ToolResultMessage
from skerry.model.origin import Origin
from skerry.model.provenance import Provenance, items
from skerry.model.run import Purpose, RunFailure
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.policy.file_gate import FileGate
from skerry.ports.model import History, ModelInfo, ModelRequest
from skerry.ports.model_candidates import CallTarget
from skerry.ports.tool import ToolContext
from skerry.runtime import tool_calls
from skerry.runtime.conversation import taint, worst
from skerry.runtime.model_call import ModelCall
from skerry.runtime.run_context import Runtime
from skerry.runtime.run_hooks import RunHooks
from skerry.sessions.compaction_cut import batches
from skerry.sessions.window import LEAST_ROOM, RESULT_SHARE, TokenBudget, fit
from skerry.workspace.prompt_files import unfenced

logger = logging.getLogger(__name__)

MOST_CALLS: Final = 4
"""Limit on the model calls for one part of the conversation."""
MOST_BATCHES: Final = 4
"""Parts in which a conversation that does not fit is gone through, the newest."""
MOST_TOKENS: Final = 2048
"""Token limit of one answer."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""Size limit of the notes of one day, in bytes."""
HINT: Final = "Reply with NO_REPLY if there is nothing to store."
UNKNOWN: Final = "unknown"
"""The conversation of a note that was made without one."""
_OWN_WORDS: Final = "[What the owner said, message by message, without the answers:]"
_GOES_ON: Final = "[The conversation goes on here.]"
_TRUSTED: Final = frozenset({Origin.OWNER, Origin.KNOWN})
_QUIET: Final = frozenset({Purpose.HEARTBEAT, Purpose.SUBAGENT, Purpose.CRON, Purpose.BOOT})


def may_flush(key: SessionKey, purpose: Purpose, origin: Origin) -> bool:
    """Returns whether the conversation keeps notes: with the owner, or with whom the owner listed.

    What a group or a stranger says must not come into what the owner's own conversations read.
    What runs by itself keeps none.
    """
    has_notes = key.is_owners or key.kind is SessionKind.DIRECT
    return has_notes and purpose not in _QUIET and origin in _TRUSTED


class MemoryAppendParams(BaseModel):
    """Parameters of `memory_append`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = Field(description="Markdown to add.", min_length=1, max_length=20_000)


class MemoryAppend:
    """Adds to the notes of one day; it cannot change earlier notes.

    Each note says where it is from. `taint` is whose words the model has before it that are not its
    owner's: with any, the notes go into a file of their own, which no prompt has and whose passages
    are never taken for the owner's.
    """

    verb = Verb.WRITE

    def __init__(self, day: str, at: int, taint: frozenset[Origin] = frozenset()) -> None:
        """Takes the day, the time in ms since 1970, and the taint."""
        self._at = at
        self._taint = taint
        self._origin = worst(taint)
        self._path = unverified(day) if taint else f"memory/{day}.md"
        self.spec = ToolSpec(
            "memory_append",
            f"Add lasting notes to {self._path}.",
            MemoryAppendParams.model_json_schema(),
        )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Adds the text, on lines of its own."""
        params = MemoryAppendParams.model_validate(arguments)
        return ToolResult(await anyio.to_thread.run_sync(self._add, params.text, context))

    def _add(self, text: str, context: ToolContext) -> str:
        def change(old: bytes | None) -> bytes:
            before = old or b""
            gap = b"" if not before or before.endswith(b"\n") else b"\n"
            return before + gap + added

        where = str(context.caller.key) if context.caller else UNKNOWN
        lines = items(text, Provenance.now(self._origin, where, self._at))
        if not lines:
            raise ToolError("No note was written: there is no text.")
        added = "\n".join([*lines, ""]).encode()
        workspace = context.workspace
        if isinstance(workspace.rules, FileGate):  # the gateway chose the file, and marks each note
            workspace = replace(workspace, rules=workspace.rules.itself(self._taint))
        try:
            workspace.replace(self._path, change, max_bytes=MOST_BYTES)
        except (EscapeError, OSError) as error:
            raise ToolError(f"No note was written: {error}. Go on without.") from error
        if self._origin is Origin.OWNER:
            return f"Noted in {self._path}."
        return (
            f"Noted in {self._path}, as unverified: this conversation has words that are not your"
            f" owner's ({self._origin}). memory_search finds it, marked so; no prompt has it."
        )


class MemoryFlushTurn(Struct):
    """One flush."""

    runtime: Runtime
    pipeline: RunHooks
    defaults: AgentDefaults
    context: ToolContext
    target: CallTarget

    async def run(self, system: str, messages: Sequence[Message], limits: TokenBudget) -> bool:
        """Goes through what was said; returns whether the model could be asked about all of it.

        Where others were heard too, the owner's words are gone through alone first: nobody else can
        put anything into what is noted of those. All of it follows, for notes that are unverified.
        """
        zone = self.defaults.user_timezone
        today = f"{day(self.runtime.clock.now_ms(), zone)}"
        origins = self.context.taint | taint(messages)
        fitting = [fit(message_, limits.max_chars) for message_ in messages]
        outcomes: list[RunFailure | None] = []
        if origins:
            own = [fit(owner, limits.max_chars) for owner in owners(messages)]
            alone = [_together(batch) for batch in batches(own, limits.room)] if own else []
            self.context = replace(self.context, taint=frozenset())
            prompt = unfenced(system)
            outcomes = [
                await self._part(prompt, [batch_], today) for batch_ in alone[-MOST_BATCHES:]
            ]
            self.context = replace(self.context, taint=origins)
        outcomes.append(await self._all(system, fitting, today, limits.room))
        return not any(outcomes)

    async def _all(
        self, system: str, messages: Sequence[Message], today: str, room: int
    ) -> RunFailure | None:
        """Goes through messages in parts of `room` tokens, smaller ones where they are refused."""
        failed = None
        for part in batches(messages, room)[-MOST_BATCHES:]:
            failure = await self._part(system, list(part), today)
            less = room // 2
            if failure and failure.code == ModelOverflowError.code and less >= LEAST_ROOM:
                most = int(less * CHARS_PER_TOKEN * RESULT_SHARE)
                shorter = [fit(message_, most) for message_ in part]
                failure = await self._all(system, shorter, today, less)
            failed = failure or failed
        return failed

    async def _part(self, system: str, messages: list[Message], today: str) -> RunFailure | None:
        """Goes through messages at once; returns why the model could not be asked."""
        at = self.runtime.clock.now_ms()
        tool = MemoryAppend(today, at, self.context.taint)
        if messages and not isinstance(messages[0], message.UserMessage):
            messages.insert(0, message.user(_GOES_ON, at))
        history = History([*messages, message.user(self._prompt(today), at)])
        target = replace(self.target, purpose=Purpose.FLUSH)
        failover = self.runtime.failover(target)
        speaker = ModelCall(failover, _unheard, self.runtime.clock.now_ms)

        async def ask(model: ModelInfo) -> ModelRequest:
            limited = replace(model, max_tokens=min(model.max_tokens, MOST_TOKENS))
            settings = self.defaults.compaction.memory_flush
            prompt = f"{system}\n\n{settings.system_prompt}"
            return ModelRequest(limited, prompt, history, (tool.spec,))

        async def execute(call: ToolCall) -> ToolResultMessage:
            return await tool_calls.execute(call, {tool.spec.name: tool}, self.context, at)

        for _ in range(MOST_CALLS):
            reply = await speaker.respond(ask)
            if speaker.failure is not None:
                logger.warning("notes were not flushed: %s", speaker.failure.message)
                break
            history.append(reply)
            for call in reply.tool_calls:
                history.append(await self.pipeline.tool(call, execute))
            if not reply.tool_calls:
                break
        return speaker.failure

    def _prompt(self, today: str) -> str:
        text = self.defaults.compaction.memory_flush.prompt.replace("YYYY-MM-DD", today)
        hint = "" if "NO_REPLY" in text else f"\n{HINT}"
        return f"{text}{hint}\nThe tool memory_append adds to that file. Today is {today}."


def owners(messages: Sequence[Message]) -> list[Message]:
    """Returns the owner's own messages (pure)."""
    return [
        entry
        for entry in messages
        if isinstance(entry, message.UserMessage)
        and entry.origin is Origin.OWNER
        and entry.text.strip()
    ]


def _together(messages: Sequence[Message]) -> Message:
    """Returns messages of the owner as one, so that no answer is missing between them."""
    parts = (entry.text for entry in messages if isinstance(entry, message.UserMessage))
    return message.user("\n\n".join((_OWN_WORDS, *parts)), messages[-1].timestamp)


def _unheard(_: LoopEvent) -> None:
    """Does nothing: nobody reads a flush."""
