"""Active runs: waiting for one, stopping one, and two that became one."""

import anyio
import pytest

from skerry.lanes.active_runs import ActiveRun, ActiveRuns
from skerry.model.ids import RunId, SessionKey
from skerry.model.message import Usage
from skerry.model.queue import QueueMode
from skerry.model.run import RunRequest, RunResult, StopReason


def run(run_id: str, key: str = "main") -> ActiveRun:
    request = RunRequest(RunId(run_id), SessionKey.parse(key), "text", queue_mode=QueueMode.STEER)
    return ActiveRun(request)


def ended(one: ActiveRun) -> RunResult:
    request = one.request
    return RunResult(
        request.run_id, str(request.key), one.session_id, StopReason.DONE, (), "", "", Usage(), 0, 1
    )


def test_runs_are_listed_in_the_order_of_acceptance() -> None:
    running = ActiveRuns()
    for name, key in (("2", "a"), ("1", "b"), ("3", "a")):
        running.add(run(name, key))
    assert [one.request.run_id for one in running.of()] == ["2", "1", "3"]
    assert [one.request.run_id for one in running.of(SessionKey.parse("a"))] == ["2", "3"]


async def test_who_waits_hears_of_the_end_once_it_has_ended() -> None:
    running, one = ActiveRuns(), run("1")
    running.add(one)
    running.finish(one, ended(one))
    await one.ended.wait()
    assert one.result == ended(one)
    assert running.get(RunId("1")) is None


async def test_a_withdrawn_run_wakes_whoever_waits_for_it() -> None:
    running, one = ActiveRuns(), run("1")
    running.add(one)
    running.withdraw(one)
    with anyio.fail_after(60):
        await one.admitted.wait()
        await one.ended.wait()
    assert (one.withdrawn, running.of()) == (True, [])


def test_a_withdrawn_run_does_not_take_its_twin_with_it() -> None:
    running, one, twin = ActiveRuns(), run("1"), run("1")
    running.add(one)
    running.add(twin)
    running.withdraw(one)
    assert running.get(RunId("1")) is twin


def test_the_first_who_stops_a_run_counts() -> None:
    one = run("1")
    assert one.abort("first")
    assert one.abort("second")
    assert one.aborted_by == "first"


async def test_a_run_that_was_stopped_while_it_waited_ends_at_once() -> None:
    one = run("1")
    one.abort("rpc")
    with anyio.CancelScope() as scope:
        one.open(scope)
        await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_it_is_too_late_to_stop_a_run_that_has_talked() -> None:
    one = run("1")
    one.open(anyio.CancelScope())
    one.close()
    assert not one.abort("rpc")
    assert one.aborted_by is None


@pytest.mark.parametrize("before", [True, False], ids=["while it enters", "after it entered"])
async def test_a_run_that_entered_another_stops_it(before: bool) -> None:  # noqa: FBT001 - a case
    host, guest = run("host"), run("guest")
    scope = anyio.CancelScope()
    host.open(scope)
    if before:
        assert guest.abort("rpc")
    host.join(guest)
    if not before:
        assert guest.abort("rpc")
    assert (host.aborted_by, scope.cancel_called) == ("rpc", True)


def test_only_a_message_that_will_enter_skips_tool_calls() -> None:
    host = run("host")
    accepted, withdrawn, aborted, new = (run(name) for name in ("a", "w", "x", "n"))
    for one in (accepted, withdrawn, aborted):
        one.admitted.set()
    withdrawn.withdrawn = True
    aborted.abort("rpc")
    for one in (withdrawn, aborted, new):
        host.steering.append(one)
        assert not host.is_steered()
    host.steering.append(accepted)
    assert host.is_steered()


def test_what_did_not_enter_is_taken_out_once() -> None:
    host, first, second = run("host"), run("1"), run("2")
    host.steering.append(first)
    host.steering.append(second)
    assert host.empty_mailbox() == [first, second]
    assert host.empty_mailbox() == []


async def test_only_a_run_that_works_can_be_entered() -> None:
    running, one = ActiveRuns(), run("1")
    running.add(one)
    assert running.working(SessionKey.main()) is None
    one.open(anyio.CancelScope())
    assert running.working(SessionKey.main()) is one
    assert running.working(SessionKey.parse("other")) is None
    one.abort("rpc")
    assert running.working(SessionKey.main()) is None  # it would only hand the message back
    one.close()
    assert running.working(SessionKey.main()) is None
