"""Messages that wait behind a run: collected prompts, their wording, and dropped messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from skerry.lanes import active_runs, collected_prompt
from skerry.lanes.active_runs import ActiveRun
from skerry.model.ids import AccountId, ChannelId, RunId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.message import ImageBlock, MessageContext
from skerry.model.origin import Origin
from skerry.model.queue import DropPolicy, QueueMode, QueueRules
from skerry.model.run import RunRequest
from skerry.runtime.conversation import taint

COLLECT = QueueRules(cap=3)
TARGET = ReplyTo(ChannelId("t"), AccountId("a"), Peer(PeerKind.DIRECT, "alice"), "m")


def waiting(text: str, rules: QueueRules | None = COLLECT, to: ReplyTo | None = None) -> ActiveRun:
    run = ActiveRun(RunRequest(RunId(text), SessionKey.main(), text, reply_to=to), rules=rules)
    run.admitted.set()
    return run


def batch_of(runs: list[ActiveRun]) -> tuple[list[str], int]:
    batch = active_runs.batch(runs[0], runs[1:])
    return [run.request.text for run in batch.runs], batch.dropped


def prompt_of(*texts: str, rules: QueueRules = COLLECT) -> str:
    runs = [waiting(text, rules) for text in texts]
    return active_runs.batch(runs[0], runs[1:]).prompt(7).text


def test_collected_messages_are_one_prompt_in_the_words_of_the_seeds() -> None:
    assert prompt_of("first", "second\nline") == (
        "[Queued messages while agent was busy]\n\n"
        "---\nQueued #1\nfirst\n\n"
        "---\nQueued #2\nsecond\nline"
    )


@given(st.lists(st.text("a\n-é ", max_size=8).map(str.strip), min_size=2, max_size=6))
def test_the_messages_are_found_again_in_the_prompt_they_made(texts: list[str]) -> None:
    rules = replace(COLLECT, cap=9)
    assert collected_prompt.messages_in(prompt_of(*texts, rules=rules)) == texts


def test_of_those_over_the_cap_their_lines_are_found_again() -> None:
    assert collected_prompt.messages_in(prompt_of(*"abcde")) == list("abcde")
    assert collected_prompt.messages_in(collected_prompt.summary(["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize("text", ["", "hello", "---\nQueued #1\nno", collected_prompt.TITLE])
def test_what_one_person_wrote_has_no_parts(text: str) -> None:
    assert collected_prompt.messages_in(text) == []


def test_one_message_alone_stays_as_it_was_written() -> None:
    assert prompt_of("  only  ") == "  only  "


def test_collected_messages_keep_their_facts_and_quotes_each_under_its_number() -> None:
    runs = [waiting(text) for text in ("gone", "first", "second", "third")]
    for number, run in enumerate(runs):
        if number != 2:
            facts = f'{{"message_id":"m{number}"}}'
            context = MessageContext(facts, f"It answers a message of Bob:\n  quote {number}")
            run.request = replace(run.request, context=context)
    prompt = active_runs.batch(runs[0], runs[1:]).prompt(7)
    assert prompt.context == MessageContext(
        '[{"queued":1,"facts":{"message_id":"m1"}},{"queued":3,"facts":{"message_id":"m3"}}]',
        "Context of queued #1:\nIt answers a message of Bob:\n  quote 1\n"
        "Context of queued #3:\nIt answers a message of Bob:\n  quote 3",
    )
    assert taint([prompt]) == {Origin.STRANGER}
    assert active_runs.batch(runs[2], []).prompt(7).context is None


def test_a_collected_text_that_is_not_of_its_sender_taints_the_prompt() -> None:
    runs = [waiting("posted"), waiting("mine")]
    runs[0].request = replace(runs[0].request, origin=Origin.OWNER, text_origin=Origin.WEB)
    runs[1].request = replace(runs[1].request, origin=Origin.OWNER)
    assert active_runs.batch(runs[0], runs[1:]).prompt(7).origin is Origin.WEB


def test_of_what_is_over_the_cap_the_prompt_has_a_line_each() -> None:
    assert prompt_of("one\n two", "x" * 200, "b", "c", "d") == (
        "[Queued messages while agent was busy]\n\n"
        "[Queue overflow] Dropped 2 messages due to cap.\nSummary:\n"
        f"- one two\n- {'x' * 159}…\n\n"
        "---\nQueued #1\nb\n\n---\nQueued #2\nc\n\n---\nQueued #3\nd"
    )


def test_what_was_dropped_without_a_line_is_counted() -> None:
    runs = [waiting(text) for text in "abcd"]
    runs[0].unseen = 5
    text = active_runs.batch(runs[0], runs[1:]).prompt(7).text
    assert "[Queue overflow] Dropped 6 messages due to cap.\nSummary:\n- a\n\n---" in text


def test_follow_ups_are_taken_one_by_one_behind_a_summary_of_those_over_the_cap() -> None:
    rules = replace(COLLECT, mode=QueueMode.FOLLOWUP)
    runs = [waiting(text, rules) for text in "abcde"]
    assert batch_of(runs[2:]) == (["c"], 0)
    assert batch_of(runs) == (["a", "b"], 2)
    summary = "[Queue overflow] Dropped 2 messages due to cap.\nSummary:\n- a\n- b"
    assert prompt_of(*"abcde", rules=rules) == summary
    assert collected_prompt.summary(["a"]) == (
        "[Queue overflow] Dropped 1 message due to cap.\nSummary:\n- a"
    )


@pytest.mark.parametrize(
    "other",
    [
        waiting("other", QueueRules(QueueMode.FOLLOWUP)),
        waiting("other", QueueRules(QueueMode.OWN_RUN)),
        waiting("other", None),
        waiting("other", to=TARGET),
    ],
    ids=["another mode", "somebody waits for its answer", "not settled yet", "another place"],
)
def test_only_what_belongs_together_is_collected(other: ActiveRun) -> None:
    assert batch_of([waiting("a"), waiting("b"), other, waiting("c")]) == (["a", "b"], 0)


@pytest.mark.parametrize("field", ["channel", "account", "peer", "thread_id"], ids=str)
def test_an_answer_that_would_not_reach_somebody_is_not_shared(field: str) -> None:
    elsewhere = replace(TARGET, **{field: Peer(PeerKind.DIRECT, "b") if field == "peer" else "b"})
    assert batch_of([waiting("a", to=TARGET), waiting("b", to=elsewhere)]) == (["a"], 0)
    same = replace(TARGET, message_id="another")
    assert batch_of([waiting("a", to=TARGET), waiting("b", to=same)]) == (["a", "b"], 0)


def test_what_is_stopped_withdrawn_written_or_not_stored_is_not_collected() -> None:
    stopped, withdrawn, entered = (waiting(name) for name in ("s", "w", "e"))
    stopped.abort("rpc")
    withdrawn.withdrawn = True
    entered.entry = 4
    unstored = ActiveRun(waiting("u").request, rules=COLLECT)
    for waiting_run in (stopped, withdrawn, entered, unstored):
        assert not waiting_run.is_queued
        assert batch_of([waiting("a"), waiting_run]) == (["a"], 0)
        assert waiting_run.quiet_seconds == 0


def test_a_prompt_does_not_grow_without_limit() -> None:
    large = waiting("large")
    image = ImageBlock("x" * (active_runs.MAX_CHARS - 2), "image/png")
    large.request = replace(large.request, text="", images=(image,))
    assert batch_of([large, waiting("a"), waiting("b"), waiting("c")]) == (["", "a", "b"], 0)


@pytest.mark.parametrize("first", Origin)
@pytest.mark.parametrize("second", Origin)
def test_who_may_do_less_never_shares_a_run_with_who_may_do_more(
    first: Origin, second: Origin
) -> None:
    front, behind = waiting("a"), waiting("b")
    front.request = replace(front.request, origin=first)
    behind.request = replace(behind.request, origin=second)
    assert (len(active_runs.batch(front, [behind]).runs) == 2) is (first is second)


def test_a_prompt_has_the_images_and_the_origin_of_what_was_collected() -> None:
    first, second = waiting("a"), waiting("b")
    image = ImageBlock("eA==", "image/png")
    first.request = replace(first.request, images=(image,), origin=Origin.OWNER)
    second.request = replace(second.request, origin=Origin.OWNER)
    message = active_runs.batch(first, [second]).prompt(7)
    assert message.content[1:] == (image,)
    assert (message.origin, message.timestamp) == (Origin.OWNER, 7)


@pytest.mark.parametrize(
    ("mode", "seconds"),
    [
        (QueueMode.COLLECT, 1.0),
        (QueueMode.FOLLOWUP, 1.0),
        (QueueMode.STEER_BACKLOG, 1.0),
        (QueueMode.STEER, 0.0),
        (QueueMode.INTERRUPT, 0.0),
        (QueueMode.OWN_RUN, 0.0),
    ],
)
def test_only_what_may_get_company_waits_for_it(mode: QueueMode, seconds: float) -> None:
    assert waiting("a", QueueRules(mode)).quiet_seconds == seconds


@given(st.integers(0, 30), st.integers(1, 8), st.sampled_from(DropPolicy))
def test_what_stays_is_within_the_cap_and_on_the_right_side(
    number: int, cap: int, drop: DropPolicy
) -> None:
    queued = [waiting(str(n)) for n in range(number)]
    dropped = active_runs.excess(queued, QueueRules(cap=cap, drop=drop))
    room = 2 * cap if drop is DropPolicy.SUMMARIZE else cap
    assert len(queued) - len(dropped) == min(number, room)
    remaining = [run for run in queued if run not in dropped]
    assert remaining == (
        queued[:room] if drop is DropPolicy.NEW else queued[number - len(remaining) :]
    )
