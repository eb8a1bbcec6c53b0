"""The silent turn before a compaction: the model writes lasting notes, without output for people.

Source: openclaw-behaviour 7.5. The only tool of this turn appends to the day's notes, so it cannot
lose an earlier note.
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
from skerry.sessions.window import MIN_ROOM, RESULT_SHARE, TokenBudget, fit
from skerry.workspace.prompt_files import unfenced

logger = logging.getLogger(__name__)

MAX_CALLS: Final = 4
"""Limit on the model calls for one batch of the conversation."""
MAX_BATCHES: Final = 4
"""Limit on the batches of a conversation that does not fit at once; the newest are used."""
MAX_TOKENS: Final = 2048
"""Limit on one answer, in tokens."""
MAX_BYTES: Final = 4 * 1024 * 1024
"""Limit on the notes of one day, in bytes."""
HINT: Final = "Reply with NO_REPLY if there is nothing to store."
UNKNOWN_KEY: Final = "unknown"
"""Written as the conversation of a note without a caller."""
_OWNER_TEXT: Final = "[What the owner said, message by message, without the answers:]"
_GOES_ON: Final = "[The conversation goes on here.]"
_TRUSTED: Final = frozenset({Origin.OWNER, Origin.KNOWN})
_QUIET: Final = frozenset({Purpose.HEARTBEAT, Purpose.SUBAGENT, Purpose.CRON, Purpose.BOOT})


def may_flush(key: SessionKey, purpose: Purpose, origin: Origin) -> bool:
    """Returns whether the conversation may write notes: with the owner, or with a listed sender.

    The text of a group or a stranger must not get into notes that the owner's conversations read.
    Runs that the gateway starts write no notes.
    """
    has_notes = key.is_owners or key.kind is SessionKind.DIRECT
    return has_notes and purpose not in _QUIET and origin in _TRUSTED


class MemoryAppendParams(BaseModel):
    """Parameters of `memory_append`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = Field(description="Markdown to add.", min_length=1, max_length=20_000)


class MemoryAppend:
    """Adds to the notes of one day; it cannot change earlier notes.

    Each note has its provenance. `taint` has the origins of text by others in the model's context:
    if there is any, the notes are written to a separate file, which is in no prompt and whose
    passages never count as the owner's.
    """

    verb = Verb.WRITE

    def __init__(self, day: str, at: int, taint: frozenset[Origin] = frozenset()) -> None:
        """Makes the tool for a day; `at` is the time of the notes in milliseconds since 1970."""
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
        """Adds the text on new lines."""
        params = MemoryAppendParams.model_validate(arguments)
        return ToolResult(await anyio.to_thread.run_sync(self._add, params.text, context))

    def _add(self, text: str, context: ToolContext) -> str:
        def change(old: bytes | None) -> bytes:
            before = old or b""
            gap = b"" if not before or before.endswith(b"\n") else b"\n"
            return before + gap + added

        key = str(context.caller.key) if context.caller else UNKNOWN_KEY
        lines = items(text, Provenance.now(self._origin, key, self._at))
        if not lines:
            raise ToolError("No note was written: there is no text.")
        added = "\n".join([*lines, ""]).encode()
        workspace = context.workspace
        if isinstance(workspace.rules, FileGate):  # the gateway chose the file and marks each note
            workspace = replace(workspace, rules=workspace.rules.for_gateway(self._taint))
        try:
            workspace.replace(self._path, change, max_bytes=MAX_BYTES)
        except (EscapeError, OSError) as error:
            raise ToolError(f"No note was written: {error}. Go on without.") from error
        if self._origin is Origin.OWNER:
            return f"Noted in {self._path}."
        return (
            f"Noted in {self._path}, as unverified: this conversation contains text that is not"
            f" your owner's ({self._origin}). memory_search finds it, marked so; no prompt has it."
        )


class MemoryFlushTurn(Struct):
    """Performs one flush."""

    runtime: Runtime
    pipeline: RunHooks
    defaults: AgentDefaults
    context: ToolContext
    target: CallTarget

    async def run(self, system: str, messages: Sequence[Message], limits: TokenBudget) -> bool:
        """Flushes notes about the messages; returns whether all model calls succeeded.

        If the conversation has text by others, the owner's messages are first processed without
        it, so that others cannot influence those notes. Then all messages are processed, for
        unverified notes.
        """
        zone = self.defaults.user_timezone
        today = f"{day(self.runtime.clock.now_ms(), zone)}"
        origins = self.context.taint | taint(messages)
        fitting = [fit(message_, limits.max_chars) for message_ in messages]
        outcomes: list[RunFailure | None] = []
        if origins:
            fitted = [fit(message_, limits.max_chars) for message_ in owners(messages)]
            prompts = [_joined(batch) for batch in batches(fitted, limits.room)] if fitted else []
            self.context = replace(self.context, taint=frozenset())
            prompt = unfenced(system)
            outcomes = [
                await self._part(prompt, [owner_prompt], today)
                for owner_prompt in prompts[-MAX_BATCHES:]
            ]
            self.context = replace(self.context, taint=origins)
        outcomes.append(await self._all(system, fitting, today, limits.room))
        return not any(outcomes)

    async def _all(
        self, system: str, messages: Sequence[Message], today: str, room: int
    ) -> RunFailure | None:
        """Processes messages in batches of `room` tokens, or smaller ones if they are refused."""
        failed = None
        for part in batches(messages, room)[-MAX_BATCHES:]:
            failure = await self._part(system, list(part), today)
            half = room // 2
            if failure and failure.code == ModelOverflowError.code and half >= MIN_ROOM:
                limit = int(half * CHARS_PER_TOKEN * RESULT_SHARE)
                shorter = [fit(message_, limit) for message_ in part]
                failure = await self._all(system, shorter, today, half)
            failed = failure or failed
        return failed

    async def _part(self, system: str, messages: list[Message], today: str) -> RunFailure | None:
        """Processes one batch of messages; returns the failure of the model call, if any."""
        at = self.runtime.clock.now_ms()
        tool = MemoryAppend(today, at, self.context.taint)
        if messages and not isinstance(messages[0], message.UserMessage):
            messages.insert(0, message.user(_GOES_ON, at))
        history = History([*messages, message.user(self._prompt(today), at)])
        target = replace(self.target, purpose=Purpose.FLUSH)
        failover = self.runtime.failover(target)
        speaker = ModelCall(failover, _ignore_event, self.runtime.clock.now_ms)

        async def ask(model: ModelInfo) -> ModelRequest:
            limited = replace(model, max_tokens=min(model.max_tokens, MAX_TOKENS))
            settings = self.defaults.compaction.memory_flush
            prompt = f"{system}\n\n{settings.system_prompt}"
            return ModelRequest(limited, prompt, history, (tool.spec,))

        async def execute(call: ToolCall) -> ToolResultMessage:
            return await tool_calls.execute(call, {tool.spec.name: tool}, self.context, at)

        for _ in range(MAX_CALLS):
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
    """Returns the messages that the owner wrote (pure)."""
    return [
        entry
        for entry in messages
        if isinstance(entry, message.UserMessage)
        and entry.origin is Origin.OWNER
        and entry.text.strip()
    ]


def _joined(messages: Sequence[Message]) -> Message:
    """Returns messages of the owner as one message, so that no answer is missing between them."""
    parts = (entry.text for entry in messages if isinstance(entry, message.UserMessage))
    return message.user("\n\n".join((_OWNER_TEXT, *parts)), messages[-1].timestamp)


def _ignore_event(_: LoopEvent) -> None:
    """Ignores the event: a flush is not streamed to clients."""
