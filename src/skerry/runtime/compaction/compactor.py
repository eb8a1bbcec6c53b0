"""Compacts a conversation: flushes notes, then replaces its earlier messages by a summary.

No message is lost. The entry of the compaction has the number of the first entry that is still
sent; the earlier ones stay in the store, where the search finds them. The caller holds the
session's lane, so that no message is written meanwhile. The compaction is written in one unit, so
that after a crash the conversation is either unchanged or compacted.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from skerry.config.protected import gate
from skerry.config.root import Config
from skerry.hooks.events import AfterCompaction, BeforeCompaction, RunContext
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.event import CompactionEnded, CompactionStarted, RunEventBody
from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.message import COMPACTION, CompactionMessage, Message, TextBlock, Usage
from skerry.model.origin import Origin
from skerry.model.run import CompactionResult, Purpose
from skerry.ports.model import History, ModelInfo
from skerry.ports.model_candidates import CallTarget
from skerry.ports.tool import ToolContext
from skerry.runtime.compaction.summarizer import Summarizer
from skerry.runtime.conversation import CachedConversation, taint, worst
from skerry.runtime.late import memory_flush
from skerry.runtime.run_context import Runtime
from skerry.runtime.run_hooks import RunHooks, TranscriptHooks
from skerry.sessions.compaction_cut import CompactionCut, Numbered, cut, model_entries
from skerry.sessions.summary import extracted, files, summary_message, with_files
from skerry.sessions.window import TokenBudget, budget, fitted, token_count, weight
from skerry.store import Reader, Unit, compactions, sessions

logger = logging.getLogger(__name__)

SUMMARY_SECONDS: Final = 300.0
"""Seconds for a model's summary; after them the summary is extracted."""
SPLIT: Final = "## Turn Context (split turn)"
"""Heading above the person's request, if its turn continues after the summary."""


class CompactionTarget(Struct, frozen=True):
    """The conversation to compact, and the purpose and origin of the run."""

    key: SessionKey
    session_id: SessionId
    target: CallTarget
    """Model to call, and the account to charge."""
    purpose: Purpose = Purpose.MESSAGE
    origin: Origin = Origin.STRANGER


class CompactionTask(Struct, frozen=True):
    """Parameters of one compaction."""

    model: ModelInfo
    limits: TokenBudget
    system: str
    """System prompt of the run, for the flush."""
    trigger: str
    """`threshold`, `overflow` or `manual`."""
    tokens: int
    """Approximate number of tokens in the conversation."""
    instructions: str = ""


class Compactor(Struct, frozen=True):
    """Compacts one conversation."""

    runtime: Runtime
    config: Config
    """The configuration at the start of the run."""
    target: CompactionTarget
    pipeline: RunHooks
    tool_context: Callable[[], ToolContext]
    """Returns the context of the flush's tool."""
    publish: Callable[[RunEventBody], None]
    """Sends the start and the end of the compaction to clients."""

    async def run(self, task: CompactionTask, tail: int) -> CompactionResult | None:
        """Compacts the conversation; returns None if there is nothing to summarise.

        Args:
            task: The trigger and the limits.
            tail: Number of the transcript's last entry.

        Raises:
            StateError: the summary could not be stored; the conversation is unchanged.
        """
        state, entries = await self.runtime.store.read(self._read)
        split = cut(entries, self._keep(task, entries))
        if split is None:
            return None
        self._notify_begin(task, len(entries))
        result: CompactionResult | None = None
        try:
            result = await self._replace(task, tail, state, entries, split)
        finally:
            self.publish(CompactionEnded(result is not None, task.trigger == "overflow"))
        return result

    async def _replace(
        self,
        task: CompactionTask,
        tail: int,
        state: compactions.CompactionState,
        entries: Sequence[Numbered],
        split: CompactionCut,
    ) -> CompactionResult | None:
        """Flushes notes and stores the summary; returns None if a manual one would not shorten."""
        if state.flushed != state.count:
            await self.flush(split.messages, task.system, task.limits)
        summary, by_model = await self._summary(split, state.last, task)
        request = fitted(
            split.open_request(state.last.asked if state.last else ""), task.limits.summary // 4
        )
        if request:
            summary += f"\n\n{SPLIT}\n{request}"
        read, modified = files(split.messages, state.last)
        now = self.runtime.clock.now_ms()
        provider, name = COMPACTION
        entry = CompactionMessage(
            (TextBlock(with_files(summary, read, modified)),),
            provider,
            provider,
            name,
            Usage(),
            "stop",
            now,
            origin=self._worst_origin(split, state.last),
            first_kept=split.first_kept,
            tokens_before=task.tokens,
            trigger=task.trigger,
            asked=request,
            by_model=by_model,
            read_files=read,
            modified_files=modified,
        )
        messages = [message for number, message in entries if number >= split.first_kept]
        after = weight(summary_message(entry)) + sum(map(weight, messages))
        if task.trigger == "manual" and after >= weight_of(state, entries):
            return None  # the summary would be longer than the few short messages

        def write(unit: Unit) -> int:
            session_id = self.target.session_id
            return compactions.add(unit, session_id, tail, entry, now, after)

        with anyio.CancelScope(shield=True):  # an abort must not lose the number of the last entry
            new_tail = await self.runtime.store.write(write)
            self.runtime.prompts.forget(self.target.session_id)
        self._notify_end(task, entry, (len(messages) + 1, after, len(split.messages)))
        return CompactionResult(new_tail, task.tokens, after, len(messages))

    def _worst_origin(self, split: CompactionCut, last: CompactionMessage | None) -> Origin:
        """Returns the origin of the summary: the least trusted of the summarised messages."""
        origins = taint(split.messages)
        if last is not None and last.origin is not Origin.OWNER:
            origins |= {last.origin or Origin.MEMORY}
        return worst(origins)

    async def flush(
        self,
        messages: Sequence[Message],
        system: str,
        limits: TokenBudget,
        session_id: SessionId | None = None,
    ) -> None:
        """Lets the model write notes, if it may; `session_id` names another session."""
        defaults, target = self.config.agents.defaults, self.target
        enabled = defaults.compaction.memory_flush.enabled
        if not enabled or not memory_flush.may_flush(target.key, target.purpose, target.origin):
            return
        flush = memory_flush.MemoryFlushTurn(
            self.runtime, self.pipeline, defaults, self.tool_context(), target.target
        )
        if await flush.run(system, messages, limits):
            now = self.runtime.clock.now_ms()
            flushed_id = session_id or target.session_id
            self.runtime.store.post(lambda unit: compactions.flushed(unit, flushed_id, now))

    def _read(self, reader: Reader) -> tuple[compactions.CompactionState, list[Numbered]]:
        session_id = self.target.session_id
        state = compactions.state(reader, session_id)
        after = state.last.first_kept - 1 if state.last else 0
        entries = sessions.entries(reader, session_id, limit=-1, after=after)
        return state, model_entries([(entry.seq, entry.message) for entry in entries])

    def _keep(self, task: CompactionTask, entries: Sequence[Numbered]) -> int:
        """Returns the tokens to keep; fewer if the model counts more tokens than the estimate."""
        total = sum(weight(message) for _, message in entries) + 1
        keep = min(task.limits.keep, task.limits.keep * total // max(task.tokens, 1) + 1)
        # A manual compaction must shorten the conversation.
        return min(keep, total // 3) if task.trigger == "manual" else keep

    async def _summary(
        self, split: CompactionCut, last: CompactionMessage | None, task: CompactionTask
    ) -> tuple[str, bool]:
        """Returns the summary, and whether a model wrote it."""
        previous = last.text if last else ""
        replaced = sum(map(weight, split.messages)) + len(previous) // 4
        # A demonstration model cannot summarise: it would invent the content.
        if task.model.prompt_limit is None:
            summariser = Summarizer(self.runtime, self.target.target)
            with anyio.move_on_after(SUMMARY_SECONDS):
                text = await summariser.text(
                    split.messages, previous, task.instructions, task.limits
                )
                if text is not None:
                    return text, True
            logger.warning("no model wrote a summary of %s; it is extracted", self.target.key)
        room = max(min(task.limits.summary, replaced * 3 // 4), 16)
        return extracted(split.messages, previous, room), False

    def _notify_begin(self, task: CompactionTask, messages: int) -> None:
        self.publish(CompactionStarted())
        point, target = self.runtime.hooks.before_compaction, self.target
        if point.handlers:
            point.start(
                BeforeCompaction(
                    agent_id=target.key.agent,
                    session_key=str(target.key),
                    session_id=target.session_id,
                    trigger=task.trigger,
                    message_count=messages,
                    token_count=task.tokens,
                )
            )

    def _notify_end(
        self, task: CompactionTask, entry: CompactionMessage, counts: tuple[int, int, int]
    ) -> None:
        point, target = self.runtime.hooks.after_compaction, self.target
        if point.handlers:
            messages, tokens, compacted = counts
            point.start(
                AfterCompaction(
                    agent_id=target.key.agent,
                    session_key=str(target.key),
                    session_id=target.session_id,
                    trigger=task.trigger,
                    message_count=messages,
                    token_count=tokens,
                    compacted_count=compacted,
                    summary=entry.text,
                    by_model=entry.by_model,
                )
            )


def weight_of(state: compactions.CompactionState, entries: Sequence[Numbered]) -> int:
    """Returns the estimated tokens of the conversation as it is sent."""
    summary = weight(summary_message(state.last)) if state.last else 0
    return summary + sum(weight(message) for _, message in entries)


def tighter(task: CompactionTask, refused: int, times: int) -> CompactionTask:
    """Returns the task with tighter limits, after a model refused a request of `refused` tokens."""
    return replace(task, limits=task.limits.below(refused).tighter(times))


async def compact_session(
    runtime: Runtime, key: SessionKey, instructions: str
) -> CompactionResult | None:
    """Compacts a session; returns None if there is nothing to summarise. The caller holds the lane.

    Raises:
        ModelError: no model could be chosen.
        StateError: the summary could not be stored.
    """
    session = await runtime.store.read(lambda reader: sessions.find(reader, str(key)))
    if session is None:
        return None
    config, session_id = runtime.config(), session.session_id
    compaction = config.agents.defaults.compaction
    reference = session.settings.model or config.primary_model(key.agent)
    target = CallTarget(reference, key.agent, session_id, purpose=Purpose.COMPACTION)
    _, model = await runtime.models.choose(reference)
    cleared = session.settings.taint_cleared or 0
    conversation = CachedConversation(History(), session.tail, cleared=cleared)
    await runtime.histories.load(conversation, session_id, session.tail + 1)
    workspace = config.workspace(key.agent)
    context = RunContext(
        run_id=RunId(""),
        agent_id=key.agent,
        session_key=str(key),
        session_id=session_id,
        workspace=workspace,
    )
    compactor = Compactor(
        runtime,
        config,
        CompactionTarget(key, session_id, target, origin=Origin.OWNER),
        RunHooks(runtime.hooks, context, TranscriptHooks(runtime.hooks), runtime.clock),
        lambda: ToolContext(RootedFolder(workspace, gate(config))),
        _ignore_event,
    )
    limits = budget(model.context_window, 0, compaction)
    tokens = token_count(conversation.history, conversation.since, limits)
    result = await compactor.run(
        CompactionTask(model, limits, "", "manual", tokens, instructions), session.tail
    )
    runtime.histories.forget(session_id)
    return result


def _ignore_event(_: RunEventBody) -> None:
    """Ignores the event: no run with clients is active."""
