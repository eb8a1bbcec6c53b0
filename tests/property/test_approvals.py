"""An approval in every sequence of answers, runs, kills and times: it begins once, after a yes."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skerry.model.approval import EXPIRES_MS, ApprovalState, Verdict
from skerry.model.tool import ToolResult
from skerry.store import DATABASE, Store, Unit, approvals, audit, open_store
from skerry.store.approvals import ApprovalView, StoredApproval
from tests.support.shown import examples

STEPS = ("once", "always", "deny", "begin", "end", "expire", "withdraw", "kill", "time")
ENDS = {
    ApprovalState.DENIED,
    ApprovalState.EXPIRED,
    ApprovalState.ENDED,
    ApprovalState.UNKNOWN,
}
VIEW = ApprovalView("exec", "ls", "gateway", "/", "main", "s", "on-miss", patterns=("ls",))


@dataclass
class Life:
    """One approval, and its invariants."""

    store: Store
    now: int = 1_000
    begun: int = 0
    yes: bool = False
    states: list[ApprovalState] = field(default_factory=list)

    async def step(self, name: str) -> None:
        """Runs a step, and records its outcome."""
        if name == "time":
            self.now += EXPIRES_MS // 2
            return
        before = await self.state()
        done = await self.store.write(lambda unit: self.work(unit, name))
        after = await self.state()
        self.states.append(after)
        if name in {"once", "always"} and done:
            assert before is ApprovalState.PENDING
            assert self.now < 1_000 + EXPIRES_MS
            self.yes = True
        if name == "begin" and done:
            assert self.yes
            self.begun += 1
        if before in ENDS:
            assert after is before, f"{before} became {after} by {name}"
        if before is ApprovalState.BEGUN:
            assert after in {ApprovalState.BEGUN, ApprovalState.ENDED, ApprovalState.UNKNOWN}

    def work(self, unit: Unit, name: str) -> bool:
        now = self.now
        match name:
            case "once" | "always" | "deny":
                verdict = {"once": Verdict.ONCE, "always": Verdict.ALWAYS}.get(name, Verdict.DENY)
                return approvals.resolve(unit, "a", verdict, "me", now)
            case "begin":
                return approvals.begin(unit, "a", now)
            case "end":
                approvals.end(unit, "a", ToolResult("x"), now)
            case "expire":
                approvals.expire(unit, now)
            case "withdraw":
                return approvals.withdraw(unit, "a", "me", now)
            case _:
                approvals.interrupt(unit, now)
        return False

    async def state(self) -> ApprovalState:
        """Returns the state of the row."""
        stored = await self.store.read(lambda reader: approvals.get(reader, "a"))
        assert stored is not None
        return stored.state


@settings(max_examples=examples(60))
@given(st.lists(st.sampled_from(STEPS), max_size=14))
@example(["once", "begin", "kill", "begin", "end"])
@example(["time", "time", "once", "begin"])
@example(["once", "withdraw", "begin"])
@example(["once", "begin", "withdraw", "begin", "end", "begin"])
def test_a_call_begins_at_most_once_and_only_after_a_yes_in_time(steps: list[str]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with open_store(Path(folder) / DATABASE) as store:
                life = Life(store)
                row = StoredApproval(
                    "a", ApprovalState.PENDING, "f", None, VIEW, 1_000, 1_000 + EXPIRES_MS
                )
                await store.write(lambda unit: approvals.add(unit, row, "r", "c"))
                for step in steps:
                    await life.step(step)
                assert life.begun <= 1
                assert (await store.read(audit.verify)).broken is None

    anyio.run(run)
