"""`chat.js` in every order: whenever a page comes, and reads, it loses sight of no message."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import pytest

from tests.unit.web.test_chat import (
    CHAT,
    KEY,
    Step,
    agent,
    chat,
    stored_message,
    user_message,
    write,
)

pytestmark = pytest.mark.full("Node")

RUNNER = """
const chat = await import(process.argv[1]);
let input = "";
for await (const chunk of process.stdin) input += chunk;
const play = (steps) => {
  let state = chat.begin();
  const step = ([name, ...parameters]) => (state = chat[name](state, ...parameters));
  return steps.map((one) => (step(one), chat.view(state)));
};
console.log(JSON.stringify(JSON.parse(input).map(play)));
"""
ISLAND = user_message("island", "a")
HALF, WHOLE = "A skerry is ", stored_message("assistant", "A skerry is a small island.")
START_B = agent("b", "lifecycle", phase="start")
START_C = agent("c", "lifecycle", phase="start")
C_JOINS_B = agent("c", "lifecycle", phase="start", joined="b")
B_JOINS_A = agent("b", "lifecycle", phase="start", joined="a")
B_JOINS_C = agent("b", "lifecycle", phase="start", joined="c")


class Moment(NamedTuple):
    """The state of the gateway, and the events that lead to it."""

    messages: list[dict[str, Any]]
    line: tuple[dict[str, Any], ...] = ()
    events: tuple[Step, ...] = ()
    waits: str | None = ""
    """Those of the runs b and c that wait for their turn; None: nobody can say."""
    asked: str = ""
    """Those of them that are to be seen, waiting or not."""

    def history(self) -> Step:
        return ["remember", {"sessionKey": KEY, "messages": self.messages, "activeRuns": self.line}]


def works(run: str, text: str = "") -> dict[str, str]:
    return {"runId": run, "text": text}


def begins(*runs: str) -> dict[str, Any]:
    """The last is to answer all, whose messages are not in the transcript yet."""
    said = [{"runId": run, "text": SAYS[run]} for run in runs]
    return {"runId": runs[-1], "text": "", "said": said}


def waits(run: str) -> dict[str, str]:
    return {"runId": run, "text": "", "queued": SAYS[run]}


SAYS = {"b": "how high?", "c": "and how old?"}
A, B, C = works("a", HALF), waits("b"), waits("c")
PROMPT_B = user_message(SAYS["b"], "b")
ECHO = stored_message("assistant", "echo")
TOGETHER = {
    **user_message("[Queued messages]", "c"),
    "__openclaw": {"said": [{"runId": run, "text": text} for run, text in SAYS.items()]},
}
END_A = chat("a", "final", "A skerry is a small island.")
MORE_A = chat("a", "delta", HALF)
ONE_WAITS = [
    Moment([ISLAND], (A, B), (), "b", "b"),
    Moment([ISLAND], (A, B), (MORE_A,), "b", "b"),
    Moment([ISLAND, WHOLE], (A, B), (), "b", "b"),
    Moment([ISLAND, WHOLE], (B,), (END_A,), "b", "b"),
]
ANSWERED = [
    *ONE_WAITS,
    Moment([ISLAND, WHOLE], (begins("b"),), (START_B,), "", "b"),
    Moment([ISLAND, WHOLE, PROMPT_B], (works("b"),), (), "", "b"),
    Moment([ISLAND, WHOLE, PROMPT_B], (works("b", "ec"),), (chat("b", "delta", "ec"),), "", "b"),
    Moment([ISLAND, WHOLE, PROMPT_B, ECHO], (works("b", "echo"),), (), "", "b"),
    Moment([ISLAND, WHOLE, PROMPT_B, ECHO], (), (chat("b", "final", "echo"),), "", "b"),
]
TAKEN_BACK = [
    *ONE_WAITS[:2],
    Moment([ISLAND], (A,), (chat("b", "aborted"),)),
    Moment([ISLAND, WHOLE], (), (END_A,)),
]
STEERED = [
    *ONE_WAITS[:2],
    Moment([ISLAND, PROMPT_B], (A, B), (), None, "b"),
    Moment([ISLAND, PROMPT_B], (A,), (B_JOINS_A,), "", "b"),
    Moment([ISLAND, PROMPT_B, WHOLE], (A,), (MORE_A,), "", "b"),
    Moment([ISLAND, PROMPT_B, WHOLE], (), (END_A, chat("b", "final", "")), "", "b"),
]
COLLECTED = [
    Moment([ISLAND], (A, B, C), (), "bc", "bc"),
    Moment([ISLAND, WHOLE], (A, B, C), (), "bc", "bc"),
    Moment([ISLAND, WHOLE], (B, C), (END_A,), "bc", "bc"),
    Moment([ISLAND, WHOLE], (begins("b", "c"),), (START_C, B_JOINS_C), "", "bc"),
    Moment([ISLAND, WHOLE, TOGETHER], (works("c"),), (), "", "bc"),
    Moment([ISLAND, WHOLE, TOGETHER], (works("c", "ec"),), (chat("c", "delta", "ec"),), "", "bc"),
    Moment([ISLAND, WHOLE, TOGETHER, ECHO], (works("c", "echo"),), (), "", "bc"),
]
"""All ends of that are ends of one run: `ANSWERED` has them."""


def orders(moments: Sequence[Moment]) -> list[tuple[int, list[int]]]:
    """Returns when a page comes, and which moments' histories it reads, twice, in every order."""
    return [
        (comes, sorted(reads))
        for reads in combinations_with_replacement(range(len(moments)), 2)
        for comes in range(reads[0] + 1)
    ]


def case(
    moments: Sequence[Moment], comes: int, reads: list[int], *, own: bool
) -> tuple[list[Step], list[tuple[int, Moment]]]:
    """Returns the events for a page, and the steps after which it must show the state.

    It wrote the messages itself, or another did.
    """
    steps: list[Step] = [["name", KEY]]
    if own:
        steps += [write(run, SAYS[run]) for run in moments[0].asked]
        steps += [["accepted", run] for run in moments[0].asked]
    known: list[tuple[int, Moment]] = []
    for number, moment in enumerate(moments[comes:], comes):
        if number > comes:
            steps += moment.events
        steps += [moment.history()] * reads.count(number)
        if number >= reads[0]:
            known.append((len(steps) - 1, moment))
    return steps, known


def played(cases: list[list[Step]]) -> list[list[list[dict[str, Any]]]]:
    """Returns the display after each step of each case."""
    node = shutil.which("node")
    assert node, "node is not installed"
    command = [node, "--input-type=module", "-e", RUNNER, CHAT.as_uri()]
    output = subprocess.run(
        command, input=json.dumps(cases), check=True, capture_output=True, text=True
    ).stdout
    shown: list[list[list[dict[str, Any]]]] = json.loads(output)
    return shown


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    "moments",
    [
        pytest.param(ANSWERED, id="answered"),
        pytest.param(TAKEN_BACK, id="taken back"),
        pytest.param(STEERED, id="steered"),
        pytest.param(COLLECTED, id="collected"),
    ],
)
def test_a_message_is_shown_from_its_acceptance_on_whatever_is_read_and_when(
    moments: list[Moment], *, own: bool
) -> None:
    cases = [
        case(moments, comes, reads, own=own)
        for comes, reads in orders(moments)
        # What ended while its page was away that learns by sending it again.
        if moments[reads[0]].asked or not (own and comes)
    ]
    shown = played([steps for steps, _ in cases])
    for (steps, known), views in zip(cases, shown, strict=True):
        for position, moment in known:
            people = [item for item in views[position] if item["kind"] == "person"]
            waiting = "".join(item["key"] for item in people if item["state"] == "queued")
            text = json.dumps(steps[: position + 1], indent=1)
            assert [item["key"] for item in people] == ["a", *moment.asked], text
            assert moment.waits in {waiting, None}, text
