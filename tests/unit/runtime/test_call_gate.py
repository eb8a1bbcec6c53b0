"""The way of one call through the policy and the tool's own gate; each refusal names its rule."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.infra.rooted_fs import RootedFolder
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.ids import AgentId, RunId, SessionId, SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.message import ToolCall, ToolResultMessage
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.effect import ToolEffect
from skerry.ports.approval import Approval, PendingCall
from skerry.ports.tool import ApprovalSubject, Assessment, ToolContext
from skerry.runtime import tool_calls
from skerry.runtime.tool_calls import CallGate, execute

KEY = SessionKey(AgentId("main"), ("main",))
OWNER = Caller(KEY, PeerKind.DIRECT, Origin.OWNER, is_private=True)
STRANGER = Caller(KEY, PeerKind.DIRECT, Origin.STRANGER)
ASK = Assessment(ToolEffect.ASK, "on-miss", "nothing allows it")


class Gated:
    """A tool whose gate does what its test wants."""

    spec = ToolSpec("gated", "", {})

    def __init__(self, gate: Callable[[], Awaitable[Any]]) -> None:
        self.gate = gate
        self.runs: list[Assessment | None] = []

    async def assess(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        assert (arguments, context.assessment) == ({"x": 1}, None)
        return await self.gate()

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        assert arguments == {"x": 1}
        self.runs.append(context.assessment)
        return ToolResult("done")


class Person:
    """A person whose answer is given. Implements `ports.approval.Approvals`."""

    def __init__(self, answer: ToolResult | None = None, *, begins: bool = True) -> None:
        self.answer = answer
        """None is an approval."""
        self.begins = begins
        self.pending: list[PendingCall] = []
        self.outcomes: list[tuple[str, str]] = []

    async def ask(self, call: PendingCall) -> Approval | ToolResult:
        self.pending.append(call)
        return self.answer or Approval("a1", call)

    async def begin(self, approval: Approval) -> bool:
        assert approval.id == "a1"
        return self.begins

    async def refuse(self, approval: Approval, reason: str) -> None:
        self.outcomes.append((approval.id, reason))

    async def ended(self, approval: Approval, result: ToolResult) -> None:
        self.outcomes.append((approval.id, result.text))


def returning(value: object) -> Gated:
    async def gate() -> object:
        return value

    return Gated(gate)


async def make(
    tool: Gated, home: Path, caller: Caller = OWNER, person: Person | None = None
) -> ToolResultMessage:
    gate = CallGate(RunId("r"), SessionId("s"), approvals=person)
    context = ToolContext(RootedFolder(home), caller=caller)
    return await execute(ToolCall("c", "gated", {"x": 1}), {"gated": tool}, context, 7, gate)


async def test_an_allowed_call_runs_and_the_tool_sees_by_which_rule(tmp_path: Path) -> None:
    allowed = Assessment(ToolEffect.ALLOW, "pattern")
    tool = returning(allowed)
    assert (await make(tool, tmp_path)).text == "done"
    assert tool.runs == [allowed]


async def test_a_denied_call_does_not_run_and_its_result_names_the_rule(tmp_path: Path) -> None:
    tool = returning(Assessment(ToolEffect.DENY, "no-substitution", "it has $(...)"))
    result = await make(tool, tmp_path)
    assert (result.is_error, tool.runs) == (True, [])
    assert result.text == "Tool gated was denied by the rule no-substitution: it has $(...)"


async def test_what_the_policy_denies_the_tool_is_not_asked_about(tmp_path: Path) -> None:
    calls = []

    async def gate() -> Assessment:
        calls.append(1)
        return Assessment(ToolEffect.ALLOW, "all")

    tool = Gated(gate)
    result = await make(tool, tmp_path, STRANGER)
    assert (calls, tool.runs, result.is_error) == ([], [], True)
    assert "denied by the rule no-tools" in result.text


@pytest.mark.parametrize("value", [None, True, ToolEffect.ALLOW, "allow"])
async def test_a_gate_that_answers_nonsense_denies(tmp_path: Path, value: object) -> None:
    tool = returning(value)
    assert "denied by the rule gate-failed" in (await make(tool, tmp_path)).text
    assert tool.runs == []


async def test_a_gate_that_breaks_denies_without_details(tmp_path: Path) -> None:
    async def gate() -> Assessment:
        raise KeyError("/etc/secret")

    tool = Gated(gate)
    result = await make(tool, tmp_path)
    assert "denied by the rule gate-failed" in result.text
    assert "secret" not in result.text
    assert tool.runs == []


async def test_a_gate_that_does_not_end_denies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_calls, "GATE_SECONDS", 0.01)
    tool = Gated(anyio.sleep_forever)
    assert "denied by the rule gate-failed" in (await make(tool, tmp_path)).text
    assert tool.runs == []


async def test_wrong_arguments_are_told_by_the_gate_in_its_words(tmp_path: Path) -> None:
    async def gate() -> Assessment:
        raise ToolError("Give a command.")

    result = await make(Gated(gate), tmp_path)
    assert (result.text, result.is_error) == ("Give a command.", True)


async def test_a_call_to_ask_about_is_denied_where_nobody_can_be_asked(tmp_path: Path) -> None:
    tool = returning(ASK)
    result = await make(tool, tmp_path)
    assert result.text == (
        "Tool gated was denied by the rule on-miss: nothing allows it, and no person can be asked"
        " here"
    )
    assert tool.runs == []


async def test_an_approved_call_runs_once_and_its_outcome_is_noted(tmp_path: Path) -> None:
    tool, person = returning(ASK), Person()
    assert (await make(tool, tmp_path, person=person)).text == "done"
    assert [(call.tool, call.arguments, call.assessment) for call in person.pending] == [
        ("gated", {"x": 1}, ASK)
    ]
    assert (tool.runs, person.outcomes) == ([ASK], [("a1", "done")])


async def test_a_call_that_is_not_approved_does_not_run(tmp_path: Path) -> None:
    tool, person = returning(ASK), Person(ToolResult("approval-pending"))
    assert (await make(tool, tmp_path, person=person)).text == "approval-pending"
    assert (tool.runs, person.outcomes) == ([], [])


async def test_an_approval_that_was_used_runs_nothing(tmp_path: Path) -> None:
    tool, person = returning(ASK), Person(begins=False)
    assert "its approval was used" in (await make(tool, tmp_path, person=person)).text
    assert (tool.runs, person.outcomes) == ([], [])


@pytest.mark.parametrize(
    ("second", "rule"),
    [
        (Assessment(ToolEffect.DENY, "gone", "the pattern was removed"), "gone"),
        (
            Assessment(ToolEffect.ASK, "on-miss", subject=ApprovalSubject("x", binding=b"other")),
            "approval-changed",
        ),
    ],
)
async def test_the_gate_is_asked_again_when_an_approved_call_begins(
    tmp_path: Path, second: Assessment, rule: str
) -> None:
    answers = [ASK, second]

    async def gate() -> Assessment:
        return answers.pop(0)

    tool, person = Gated(gate), Person()
    assert f"denied by the rule {rule}" in (await make(tool, tmp_path, person=person)).text
    assert (tool.runs, person.outcomes) == ([], [("a1", rule)])
