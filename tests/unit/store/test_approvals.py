"""Rows of approvals: an equal call uses the open row, and old rows are deleted."""

from pathlib import Path

import pytest

from skerry.model.approval import EXPIRES_MS, ApprovalState, Verdict
from skerry.model.caller import Caller
from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.model.run import RunRequest
from skerry.model.tool import ToolResult
from skerry.policy.effect import ToolEffect
from skerry.ports.approval import PendingCall
from skerry.ports.tool import ApprovalSubject, Assessment
from skerry.runtime.approvals import fingerprint
from skerry.store import DATABASE, Reader, Unit, approvals, open_store
from skerry.store.approvals import ApprovalView, ApprovedCall, StoredApproval

MAIN = SessionKey.main()
OTHER = SessionKey.parse("agent:main:other")


def call(
    text: str = "ls", binding: bytes = b"b", key: SessionKey = MAIN, tool: str = "exec"
) -> PendingCall:
    subject = ApprovalSubject(text, (text,), "gateway", "/", ("A",), binding)
    return PendingCall(
        tool,
        "c1",
        {"command": text, "n": 1},
        Assessment(ToolEffect.ASK, "on-miss", "why", subject, ("ls *",)),
        Caller(key, PeerKind.DIRECT, Origin.OWNER, is_private=True),
        RunId("r1"),
        SessionId("s1"),
        frozenset({Origin.WEB}),
        ("p", "m"),
    )


def row(name: str, pending: PendingCall, at: int = 0) -> StoredApproval:
    view = ApprovalView("exec", "ls", "gateway", "/", "main", str(MAIN), "on-miss")
    request = RunRequest(RunId("r1"), pending.caller.key, "", origin=Origin.OWNER)
    stored = ApprovedCall(pending, request)
    return StoredApproval(
        name, ApprovalState.PENDING, fingerprint(pending), stored, view, at, at + EXPIRES_MS
    )


async def test_a_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    stored = row("a1", call())
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(lambda unit: approvals.add(unit, stored, "r1", "c1"))
        assert await store.read(lambda reader: approvals.get(reader, "a1")) == stored
        assert await store.read(lambda reader: approvals.waits(reader, "r1", "c1"))
        assert not await store.read(lambda reader: approvals.waits(reader, "r1", "c2"))


async def test_the_same_call_finds_its_open_row_and_any_other_does_not(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(lambda unit: approvals.add(unit, row("a1", call()), "r1", "c1"))

        def look(reader: Reader) -> list[bool]:
            pending = (
                call(),
                call("ls -l"),
                call(binding=b"x"),
                call(key=OTHER),
                call(tool="write"),
            )
            return [
                approvals.open_call(reader, fingerprint(pending_call), 5) is not None
                for pending_call in pending
            ]

        assert await store.read(look) == [True, False, False, False, False]
        late = await store.read(
            lambda reader: approvals.open_call(reader, fingerprint(call()), EXPIRES_MS)
        )
        assert late is None
        await store.write(lambda unit: approvals.resolve(unit, "a1", Verdict.ONCE, "me", 6))
        allowed = await store.read(
            lambda reader: approvals.open_call(reader, fingerprint(call()), EXPIRES_MS)
        )
        assert (allowed and allowed.state) == ApprovalState.ALLOWED
        await store.write(lambda unit: approvals.begin(unit, "a1", 7))
        assert (await store.read(look))[0] is False


@pytest.mark.requirement("exec-approval-expires")
async def test_an_answer_that_arrives_too_late_changes_nothing(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:

        def answer(unit: Unit) -> list[bool]:
            for name in ("early", "late"):
                approvals.add(unit, row(name, call(name)), name, "c1")
            in_time = approvals.resolve(unit, "early", Verdict.ALWAYS, "me", EXPIRES_MS - 1)
            return [in_time, approvals.resolve(unit, "late", Verdict.ALWAYS, "me", EXPIRES_MS)]

        assert await store.write(answer) == [True, False]
        assert await store.write(lambda unit: approvals.expire(unit, EXPIRES_MS)) == ["late"]
        late = await store.read(lambda reader: approvals.get(reader, "late"))
        assert late is not None
        assert late.state is ApprovalState.EXPIRED


async def test_what_ended_long_ago_and_owes_nothing_is_deleted(tmp_path: Path) -> None:
    def write(unit: Unit) -> None:
        for name in ("pending", "begun", "ended", "owing", "new"):
            approvals.add(unit, row(name, call(name)), name, "c1")
        for name in ("begun", "ended", "owing", "new"):
            approvals.resolve(unit, name, Verdict.ONCE, "me", 1)
            approvals.begin(unit, name, 2)
        for name, at in (("ended", 3), ("owing", 3), ("new", 50)):
            approvals.end(unit, name, ToolResult("x"), at)
        approvals.detach_run(unit, "owing", 4)

    async with open_store(tmp_path / DATABASE) as store:
        await store.write(write)
        assert await store.read(lambda reader: approvals.any_old(reader, 10))
        assert await store.write(lambda unit: approvals.prune(unit, 10)) == 1
        assert not await store.read(lambda reader: approvals.any_old(reader, 10))
        remaining = await store.read(lambda reader: reader.all("SELECT approval_id FROM approval"))
    assert {name for (name,) in remaining} == {"pending", "begun", "owing", "new"}
