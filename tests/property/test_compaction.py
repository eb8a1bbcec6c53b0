"""Compactions in random orders: no result is parted from its call, nothing is lost, all fits."""

import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.from_thread
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from skerry.config.context_limits import Compaction
from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import (
    COMPACTION,
    AssistantMessage,
    CompactionMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    open_calls,
)
from skerry.ports.model import History, ModelRequest
from skerry.ports.model_candidates import CallTarget
from skerry.runtime.compaction.summarizer import Summarizer
from skerry.runtime.conversation import CachedConversation, ConversationCache, fenced
from skerry.sessions import compaction_cut
from skerry.sessions.compaction_cut import batches, cut, model_entries
from skerry.sessions.summary import chunks, extracted
from skerry.sessions.window import budget, fitted, tokens
from skerry.store import Reader, Store, Unit, compactions, open_store, sessions
from skerry.testing.model import MODEL, ScriptedModel, Step
from tests.support.core import open_core
from tests.support.shown import examples, shown

T = TypeVar("T")
words = st.text(alphabet="ab 漢ж\n", max_size=400)


def call(number: int) -> ToolCall:
    return ToolCall(f"c{number}", "read", {"path": "a"})


def result(number: int, text: str) -> ToolResultMessage:
    body = (TextBlock(text),)
    return ToolResultMessage(f"c{number}", "read", body, is_error=False, timestamp=1)


def assistant_message(text: str, *calls: ToolCall) -> AssistantMessage:
    return AssistantMessage((TextBlock(text), *calls), "", "", "", Usage(), "stop", 1)


def turn(text: str, answers: Sequence[str]) -> list[Message]:
    """Returns a turn in which each answer but the last calls as many tools as it has `a`s."""
    messages: list[Message] = [message.user(text, 1)]
    for answer in answers:
        numbers = range(min(answer.count("a"), 4))
        messages.append(assistant_message(answer, *map(call, numbers)))
        messages += [result(number, answer * 3) for number in numbers]
    return messages


turns = st.lists(st.builds(turn, words, st.lists(words, max_size=4)), max_size=12)


@given(turns, st.integers(1, 2000))
def test_a_cut_parts_no_result_from_its_call_and_keeps_what_it_should(
    told: list[list[Message]], keep: int
) -> None:
    entries = list(enumerate((message for part in told for message in part), 1))
    found = cut(entries, keep)
    if found is None:
        return
    kept = [message for number, message in entries if number >= found.first_kept]
    assert [*found.messages, *kept] == [message for _, message in entries]
    assert not isinstance(kept[0], ToolResultMessage)
    assert open_calls(found.messages) == []


@given(turns, st.integers(50, 2000))
def test_batches_are_all_of_it_in_order(told: list[list[Message]], room: int) -> None:
    every = [message for part in told for message in part]
    found = batches(every, room)
    assert [message for part in found for message in part] == every
    assert not any(isinstance(part[0], ToolResultMessage) for part in found)


@given(st.lists(words, max_size=20), st.integers(10, 500))
def test_chunks_fit_and_leave_nothing_out(pieces: list[str], room: int) -> None:
    found = chunks(pieces, room)
    assert all(tokens(one) <= room for one in found)
    assert "".join(found).replace("\n", "") == "".join(pieces).replace("\n", "")


@given(words, st.integers(1, 200))
def test_a_fitted_text_fits_nearly(text: str, most: int) -> None:
    assert tokens(fitted(text, most)) <= max(most, 24)


@given(turns, words, st.integers(64, 2000))
def test_an_extract_fits(told: list[list[Message]], previous: str, most: int) -> None:
    every = [message for part in told for message in part]
    assert tokens(extracted(every, previous, most)) <= most


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
@given(turns, words, st.sampled_from([2048, 4096, 8192, 32_768]), st.integers(1, 60))
def test_a_compaction_request_cannot_overflow_itself(
    told: list[list[Message]], previous: str, window: int, more: int
) -> None:
    asked: list[int] = []

    def model(request: ModelRequest) -> Sequence[Step]:
        (only,) = request.history.messages
        size = tokens(request.system) + tokens(only.text) + request.model.max_tokens
        assert size <= window
        asked.append(size)
        return ["short"]

    async def work() -> None:
        every = [message for part in told for message in part]
        every += [message.user("漢" * 400 * number, 1) for number in range(more)]
        with tempfile.TemporaryDirectory() as home:
            async with open_core(Path(home), ScriptedModel(model)) as core:
                core.models.info = replace(MODEL, context_window=window, max_tokens=window // 4)
                runtime = core.dispatch.runtime
                limits = budget(window, 300, Compaction())
                summariser = Summarizer(runtime, CallTarget())
                await summariser.text(tuple(every), previous, "keep names", limits)

    anyio.run(work)
    assert asked, "nothing was asked for"


class Compactions(RuleBasedStateMachine):
    """A session that is written, compacted and read again."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = AsyncExitStack()
        self._thread = ExitStack()
        opening = anyio.from_thread.start_blocking_portal("asyncio")
        self._portal = self._thread.enter_context(opening)
        self.said: list[Message] = []
        self.tail = 0

    @initialize()
    def open(self) -> None:
        home = tempfile.mkdtemp()
        self.store: Store = self._portal.call(
            self._stack.enter_async_context, open_store(Path(home) / "state.sqlite")
        )
        self.id = SessionId("s")
        key = SessionKey.main()
        self._write(lambda unit: sessions.ensure(unit, key, self.id, 1))

    def _write(self, work: Callable[[Unit], T]) -> T:
        return self._portal.call(self.store.write, work)

    @rule(part=st.builds(turn, words, st.lists(words, max_size=3)))
    def talk(self, part: list[Message]) -> None:
        tail = self.tail
        self.tail = self._write(lambda unit: sessions.append(unit, self.id, tail, "r", part, 1))
        self.said += part

    @rule(keep=st.integers(1, 600))
    def compact(self, keep: int) -> None:
        _, entries = self._portal.call(self.store.read, self._entries)
        found = cut(model_entries(entries), keep)
        if found is None:
            return
        provider, name = COMPACTION
        entry = CompactionMessage(
            (TextBlock("so far"),),
            "",
            provider,
            name,
            Usage(),
            "stop",
            1,
            first_kept=found.first_kept,
        )
        tail = self.tail
        self.tail = self._write(lambda unit: compactions.add(unit, self.id, tail, entry, 1, 1))

    def _entries(
        self, reader: Reader
    ) -> tuple[compactions.CompactionState, list[compaction_cut.Numbered]]:
        state = compactions.state(reader, self.id)
        after = state.last.first_kept - 1 if state.last else 0
        entries = sessions.entries(reader, self.id, limit=-1, after=after)
        return state, [(entry.seq, entry.message) for entry in entries]

    @invariant()
    def what_is_read_is_the_summary_and_the_end_and_nothing_is_lost(self) -> None:
        if not hasattr(self, "store"):
            return
        conversation = CachedConversation(History(), 0)
        load = ConversationCache(self.store).load
        self._portal.call(load, conversation, self.id, self.tail + 1)
        state, _ = self._portal.call(self.store.read, self._entries)
        read = conversation.history.messages
        if state.last is not None:
            assert "so far" in read[0].text
            read = read[1:]
        assert read == [fenced(message) for message in self.said[len(self.said) - len(read) :]]
        assert read == [] or not isinstance(read[0], ToolResultMessage)
        every = self._portal.call(
            self.store.read, lambda reader: sessions.entries(reader, self.id, limit=-1)
        )
        assert [
            message for _, message in model_entries([(entry.seq, entry.message) for entry in every])
        ] == self.said

    def teardown(self) -> None:
        self._portal.call(self._stack.aclose)
        self._thread.close()


MACHINE = settings(max_examples=examples(60), stateful_step_count=16, deadline=None)


def test_compactions_in_any_order_lose_nothing() -> None:
    run_state_machine_as_test(Compactions, settings=MACHINE)


def test_a_cut_before_a_result_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seeded defect: the machine can fail."""
    monkeypatch.setattr(compaction_cut, "may_begin", lambda _: True)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Compactions, settings=shown(MACHINE))
