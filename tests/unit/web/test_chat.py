"""The page's conversation as data, `chat.js`, run by Node: histories and events in, items out."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import skerry

pytestmark = pytest.mark.full("Node")

CHAT = Path(skerry.__file__).parent / "web" / "chat.js"
KEY = "agent:main:main"
RUNNER = """
const chat = await import(process.argv[1]);
const steps = JSON.parse(process.argv[2]);
let state = chat.begin();
for (const [name, ...parameters] of steps) state = chat[name](state, ...parameters);
console.log(JSON.stringify({ state, items: chat.view(state) }));
"""

Step = list[Any]


def play(*steps: Step) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns the state after the steps, and the items it shows."""
    node = shutil.which("node")
    assert node, "node is not installed"
    command = [node, "--input-type=module", "-e", RUNNER, CHAT.as_uri(), json.dumps(steps)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result = json.loads(output)
    return result["state"], result["items"]


def shown(*steps: Step) -> list[tuple[str, str, str]]:
    """Returns kind, text and state of each item."""
    return [(item["kind"], item["text"], item["state"]) for item in play(*steps)[1]]


def stored_message(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}], "timestamp": 1, **more}


def user_message(text: str, key: str) -> dict[str, Any]:
    return stored_message("user", text, idempotencyKey=f"{key}:user")


def history(*messages: dict[str, Any], active: tuple[tuple[str, str], ...] = ()) -> Step:
    runs = [{"runId": run, "text": text} for run, text in active]
    return ["remember", {"sessionKey": KEY, "messages": messages, "activeRuns": runs}]


def chat(run: str, state: str, text: str | None = None, **more: Any) -> Step:
    payload = {"runId": run, "sessionKey": KEY, "state": state, **more}
    if text is not None:
        payload["message"] = stored_message("assistant", text)
    return ["hear", payload]


def agent(run: str, stream: str, **data: Any) -> Step:
    return ["watch", {"runId": run, "sessionKey": KEY, "stream": stream, "data": data}]


def write(key: str, text: str) -> Step:
    return ["write", {"key": key, "text": text, "at": 1}]


def test_a_message_goes_from_waiting_to_its_answer() -> None:
    steps = [history(), write("k", "hi")]
    assert shown(*steps) == [("person", "hi", "waiting")]
    steps.append(["mark", "k", "sending"])
    assert shown(*steps) == [("person", "hi", "sending")]
    steps.append(["accepted", "k"])
    assert shown(*steps) == [("person", "hi", "accepted"), ("answer", "", "writing")]
    steps.append(chat("k", "delta", "hel"))
    assert shown(*steps) == [("person", "hi", "accepted"), ("answer", "hel", "writing")]
    steps.append(chat("k", "final", "hello"))
    assert shown(*steps) == [("person", "hi", "kept"), ("answer", "hello", "done")]
    steps.append(history(user_message("hi", "k"), stored_message("assistant", "hello")))
    assert shown(*steps) == [("person", "hi", "kept"), ("answer", "hello", "done")]


def test_items_keep_their_ids_from_the_first_word_to_the_transcript() -> None:
    live = [history(), write("k", "hi"), ["accepted", "k"], chat("k", "delta", "he")]
    ended = [*live, chat("k", "final", "hello")]
    loaded = [history(user_message("hi", "k"), stored_message("assistant", "hello"))]
    ids = [[item["id"] for item in play(*steps)[1]] for steps in (live, ended, loaded)]
    assert ids[0] == ids[1] == ids[2]


def test_an_end_that_comes_before_the_acceptance_is_not_undone_by_it() -> None:
    steps = [history(), write("k", "hi"), chat("k", "final", "hello"), ["accepted", "k"]]
    assert shown(*steps) == [("person", "hi", "kept"), ("answer", "hello", "done")]


def test_an_end_told_twice_is_shown_once() -> None:
    error = chat("k", "error", errorMessage="no")
    steps = [history(), write("k", "hi"), ["accepted", "k"], error, error]
    assert shown(*steps) == [("person", "hi", "kept"), ("answer", "", "failed")]


def test_a_second_message_waits_behind_the_answer_to_the_first() -> None:
    steps = [history(), write("a", "one"), write("b", "two"), ["accepted", "a"], ["accepted", "b"]]
    assert shown(*steps) == [
        ("person", "one", "accepted"),
        ("answer", "", "writing"),
        ("person", "two", "queued"),
    ]
    steps.append(chat("a", "final", "1"))
    assert shown(*steps)[2:] == [("person", "two", "queued")]  # somebody may still write more
    assert shown(*steps, agent("b", "lifecycle", phase="start"))[2:] == [
        ("person", "two", "accepted"),
        ("answer", "", "writing"),
    ]


def test_the_running_answer_is_shown_once_when_the_transcript_has_its_beginning() -> None:
    call = {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a"}}
    begun = stored_message("assistant", "Let me look.")
    begun["content"].append(call)
    steps = [history(user_message("hi", "k"), begun, active=(("k", "Let me look.\n\nIt"),))]
    assert shown(*steps)[1:] == [("answer", "Let me look.\n\nIt", "writing")]
    assert shown(*steps, chat("k", "delta", "Let me look.\n\nIt says"))[1:] == [
        ("answer", "Let me look.\n\nIt says", "writing")
    ]


def test_a_page_that_comes_after_a_tool_shows_it_in_the_running_answer() -> None:
    call = {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a"}}
    begun = {**stored_message("assistant", "Let me look."), "content": [call]}
    result = stored_message("toolResult", "found", toolCallId="c")
    steps = [history(user_message("hi", "k"), begun, result, active=(("k", "half"),))]
    tool = {"id": "c", "name": "read", "args": {"path": "a"}, "state": "done", "result": "found"}
    assert play(*steps)[1][-1]["tools"] == [tool]
    later = agent("k", "tool", phase="start", toolCallId="d", name="write", args={})
    tools = play(
        *steps, later, history(user_message("hi", "k"), begun, result, active=(("k", ""),))
    )
    assert [tool["id"] for tool in tools[1][-1]["tools"]] == ["c", "d"]


def test_what_is_told_before_the_first_history_is_heard() -> None:
    start = agent("k", "tool", phase="start", toolCallId="c", name="read", args={})
    steps = [["name", KEY], write("k", "hi"), start]
    assert play(*steps)[1][-1]["tools"][0]["state"] == "working"
    assert len(play(*steps, history(active=(("k", "half"),)))[1][-1]["tools"]) == 1


def test_a_run_of_another_tab_asks_for_the_message_that_began_it() -> None:
    start = agent("k", "lifecycle", phase="start")
    state, _ = play(history(), start)
    assert state["wants"]
    # The run told of its start before its message was in the transcript.
    state, _ = play(history(), start, history(active=(("k", ""),)))
    assert not state["wants"]
    state, _ = play(history(), start, history(active=(("k", ""),)), chat("k", "delta", "he"))
    assert state["wants"]
    state, _ = play(history(), start, history(user_message("hi", "k"), active=(("k", "he"),)))
    assert not state["wants"]


def test_events_of_other_sessions_change_nothing() -> None:
    other = {"runId": "k", "sessionKey": "agent:main:other", "state": "delta"}
    state, items = play(history(), ["hear", {**other, "message": stored_message("assistant", "x")}])
    assert items == []
    assert state["runs"] == []


def test_a_history_without_the_run_ends_what_was_missed() -> None:
    steps = [history(), write("k", "hi"), ["accepted", "k"], chat("k", "delta", "he")]
    steps.append(history(user_message("hi", "k"), stored_message("assistant", "hello")))
    assert shown(*steps) == [("person", "hi", "kept"), ("answer", "hello", "done")]


def test_only_the_last_answer_can_be_asked_for_again_when_it_failed() -> None:
    failed = stored_message("assistant", "he", stopReason="error", errorMessage="no")
    _, items = play(history(user_message("hi", "a"), failed, user_message("hi", "b"), failed))
    retries = [item["retry"]["text"] if "retry" in item else None for item in items]
    assert retries == [None, None, None, "hi"]


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"stopReason": "stop"}, "done"),
        ({"stopReason": "aborted"}, "stopped"),
        ({"stopReason": "aborted", "errorMessage": "interrupted"}, "failed"),
        ({"stopReason": "error", "errorMessage": "no"}, "failed"),
    ],
    ids=["done", "stopped", "interrupted", "failed"],
)
def test_the_transcript_says_how_an_answer_ended(more: dict[str, Any], state: str) -> None:
    steps = [history(user_message("hi", "k"), stored_message("assistant", "half", **more))]
    assert shown(*steps)[1] == ("answer", "half", state)


def test_a_tool_is_shown_from_its_start_to_its_result_and_from_the_transcript() -> None:
    live = [
        history(user_message("hi", "k"), active=(("k", ""),)),
        agent("k", "tool", phase="start", name="read", toolCallId="c", args={"path": "a"}),
    ]
    working = play(*live)[1][1]["tools"]
    tool = {"id": "c", "name": "read", "args": {"path": "a"}}
    assert working == [{**tool, "state": "working", "result": ""}]
    result = {"content": [{"type": "text", "text": "no such file"}]}
    partial = {"content": [{"type": "text", "text": "looking"}], "details": {"pid": 7}}
    update = agent("k", "tool", phase="update", toolCallId="c", partialResult=partial)
    shown = {**tool, "state": "working", "result": "looking", "details": {"pid": 7}}
    assert play(*live, update)[1][1]["tools"] == [shown]
    ended = [*live, agent("k", "tool", phase="result", toolCallId="c", isError=True, result=result)]
    failed = [{**tool, "state": "failed", "result": "no such file"}]
    assert play(*ended)[1][1]["tools"] == failed
    assert play(*ended, update)[1][1]["tools"] == failed, "an update that arrives late"
    call = {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a"}}
    transcript = history(
        user_message("hi", "k"),
        {"role": "assistant", "content": [call], "stopReason": "toolUse", "timestamp": 1},
        {"role": "toolResult", "toolCallId": "c", "isError": True, **result},
        stored_message("assistant", "There is none."),
    )
    answer = play(transcript)[1][1]
    assert answer["tools"] == failed
    assert answer["text"] == "There is none."


def collecting() -> list[Step]:
    """Returns the events of two messages that waited for a run, up to the start of theirs."""
    return [
        history(user_message("work", "a"), stored_message("assistant", "done")),
        *(step for key in "bc" for step in (write(key, key), ["accepted", key])),
        agent("c", "lifecycle", phase="start"),
        agent("b", "lifecycle", phase="start", joined="c"),
    ]


def collected(*keys: str) -> dict[str, Any]:
    prompt = user_message("[Queued messages ...]", keys[-1])
    return prompt | {"__openclaw": {"said": [{"runId": key, "text": key} for key in keys]}}


def test_messages_that_joined_one_run_are_before_its_answer() -> None:
    steps = collecting()
    both = [("person", "b", "accepted"), ("person", "c", "accepted")]
    assert shown(*steps)[2:] == [*both, ("answer", "", "writing")]
    before = history(
        user_message("work", "a"),
        stored_message("assistant", "done"),
        collected("b", "c"),
        active=(("c", ""),),
    )
    kept = [("person", "b", "kept"), ("person", "c", "kept")]
    assert shown(*steps, before)[2:] == [*kept, ("answer", "", "writing")]
    steps += [chat("c", "final", "both"), chat("b", "final", "")]
    assert shown(*steps)[2:] == [*kept, ("answer", "both", "done")]
    state, _ = play(*steps)
    assert (state["runs"], state["outgoing"]) == ([], [])
    rows = history(
        user_message("work", "a"),
        stored_message("assistant", "done"),
        collected("b", "c"),
        stored_message("assistant", "both"),
    )
    assert shown(*steps, rows)[2:] == [*kept, ("answer", "both", "done")]
    ids = [[item["id"] for item in play(*some)[1]] for some in (steps, [rows])]
    assert ids[0] == ids[1]


def test_a_message_that_joined_an_active_run_is_before_its_answer() -> None:
    steps: list[Step] = [history(), write("a", "work"), ["accepted", "a"]]
    steps += [write("b", "faster"), ["accepted", "b"]]
    steps.append(agent("b", "lifecycle", phase="start", joined="a"))
    people = [("person", "work", "accepted"), ("person", "faster", "accepted")]
    assert shown(*steps) == [*people, ("answer", "", "writing")]
    _, items = play(*steps, chat("a", "final", "done"), chat("b", "aborted"))
    assert [item["text"] for item in items] == ["work", "faster", "done"]


def test_an_end_that_names_another_run_leaves_no_answer_of_its_own() -> None:
    end = agent("b", "lifecycle", phase="end", joined="a"), chat("b", "final", "")
    state, items = play(history(), write("b", "faster"), ["accepted", "b"], *end, ["accepted", "b"])
    assert (items, state["runs"], state["wants"]) == ([], [], True)


def test_what_waits_elsewhere_is_shown_until_its_turn() -> None:
    step = history(user_message("work", "a"), active=(("a", "on it"),))
    step[1]["activeRuns"].append({"runId": "b", "text": "", "queued": "and more"})
    assert shown(step)[1:] == [("answer", "on it", "writing"), ("person", "and more", "queued")]
    state, items = play(step, chat("a", "final", "done"), agent("b", "lifecycle", phase="start"))
    assert (items[-1]["state"], state["wants"]) == ("writing", True)


def test_a_message_that_was_taken_back_is_gone() -> None:
    steps: list[Step] = [history(user_message("work", "a"), active=(("a", "on it"),))]
    steps += [write("b", "oh"), ["accepted", "b"], chat("b", "aborted")]
    state, items = play(*steps)
    assert ([item["text"] for item in items], state["outgoing"]) == (["work", "on it"], [])


def test_a_message_that_the_queue_had_no_place_for_says_so() -> None:
    steps: list[Step] = [history(user_message("work", "a"), active=(("a", "on it"),))]
    steps += [write("b", "oh"), ["accepted", "b"], chat("b", "error", errorMessage="too many")]
    _, items = play(*steps)
    assert (items[-1]["state"], items[-1]["problem"]) == ("dropped", "too many")


def test_a_command_that_is_answered_beside_a_run_keeps_its_answer_and_the_run_its_place() -> None:
    steps: list[Step] = [history(user_message("work", "a"), active=(("a", "on it"),))]
    steps += [write("q", "/queue"), ["accepted", "q"], agent("q", "lifecycle", phase="start")]
    steps.append(chat("q", "delta", "Queue"))
    assert ("answer", "on it", "writing") in shown(*steps)
    steps.append(chat("q", "final", "Queue: collect"))
    steps.append(history(user_message("work", "a"), active=(("a", "on it"),)))
    answered = [("person", "/queue", "kept"), ("answer", "Queue: collect", "done")]
    assert shown(*steps)[1:] == [("answer", "on it", "writing"), *answered]
    steps += [
        chat("a", "final", "done"),
        history(user_message("work", "a"), stored_message("assistant", "done")),
    ]
    steps += [write("b", "more"), ["accepted", "b"]]
    assert shown(*steps)[1:4] == [("answer", "done", "done"), *answered]


def test_text_that_was_withdrawn_gives_way_to_the_new_one() -> None:
    steps: list[Step] = [history(user_message("hi", "a"), active=(("a", "wrong"),))]
    steps.append(chat("a", "delta", "", deltaText="", replace=True))
    assert shown(*steps)[-1] == ("answer", "", "writing")
    assert shown(*steps, chat("a", "delta", "right", deltaText="right"))[-1][1] == "right"
    missed = history(user_message("hi", "a"), active=(("a", ""),))
    assert shown(steps[0], missed)[-1] == ("answer", "", "writing")


def test_what_a_person_is_to_know_of_an_answer_stays_with_it() -> None:
    rows = agent("a", "lifecycle", phase="end", notices=["It thinks less."])
    steps = [
        history(user_message("hi", "a"), active=(("a", "he"),)),
        rows,
        chat("a", "final", "hello"),
    ]
    steps.append(history(user_message("hi", "a"), stored_message("assistant", "hello")))
    assert play(*steps)[1][-1]["notices"] == ["It thinks less."]


def test_what_the_gateway_says_of_the_conversation_is_no_answer() -> None:
    note = stored_message("assistant", "A new conversation.", provider="skerry", model="notice")
    assert shown(history(note, user_message("hi", "a"), stored_message("assistant", "hello"))) == [
        ("note", "A new conversation.", "done"),
        ("person", "hi", "kept"),
        ("answer", "hello", "done"),
    ]


def test_another_session_than_the_one_that_is_shown_is_read() -> None:
    before = history(user_message("hi", "a"), stored_message("assistant", "hello"))
    before[1]["sessionId"] = "one"
    start = agent("b", "lifecycle", phase="start")
    start[1]["sessionId"] = "two"
    assert play(before, write("b", "x"), ["accepted", "b"], start)[0]["wants"]


def test_an_answer_that_was_silent_on_purpose_is_not_shown() -> None:
    assert shown(history(user_message("hi", "a"), stored_message("assistant", ""))) == [
        ("person", "hi", "kept")
    ]
    steps = [history(), write("a", "hi"), ["accepted", "a"], chat("a", "final", "")]
    assert shown(*steps) == [("person", "hi", "kept")]


def test_a_line_shows_where_the_conversation_was_summarised() -> None:
    divider = {"role": "system", "content": [], "__openclaw": {"kind": "compaction", "seq": 3}}
    before = user_message("one", "r1"), stored_message("assistant", "a")
    rows = history(*before, divider, user_message("two", "r2"), stored_message("assistant", "b"))
    _, items = play(rows)
    assert [bool(item.get("summarised")) for item in items] == [False, False, True, False]
    _, items = play(rows, agent("r3", "compaction", phase="end", completed=True))
    assert items[-1]["summarised"]
