"""Active runs: waiting for a run, stopping a run, and a run that entered another."""

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


def ended(active: ActiveRun) -> RunResult:
    request = active.request
    return RunResult(
        request.run_id,
        str(request.key),
        active.session_id,
        StopReason.DONE,
        (),
        "",
        "",
        Usage(),
        0,
        1,
    )


def test_runs_are_listed_in_the_order_of_acceptance() -> None:
    running = ActiveRuns()
    for name, key in (("2", "a"), ("1", "b"), ("3", "a")):
        running.add(run(name, key))
    assert [active.request.run_id for active in running.of()] == ["2", "1", "3"]
    assert [active.request.run_id for active in running.of(SessionKey.parse("a"))] == ["2", "3"]


async def test_a_waiting_request_is_answered_once_the_run_has_ended() -> None:
    running, active = ActiveRuns(), run("1")
    running.add(active)
    running.finish(active, ended(active))
    await active.ended.wait()
    assert active.result == ended(active)
    assert running.get(RunId("1")) is None


async def test_a_withdrawn_run_wakes_every_waiter() -> None:
    running, active = ActiveRuns(), run("1")
    running.add(active)
    running.withdraw(active)
    with anyio.fail_after(60):
        await active.admitted.wait()
        await active.ended.wait()
    assert (active.withdrawn, running.of()) == (True, [])


def test_a_withdrawn_run_does_not_take_its_twin_with_it() -> None:
    running, active, twin = ActiveRuns(), run("1"), run("1")
    running.add(active)
    running.add(twin)
    running.withdraw(active)
    assert running.get(RunId("1")) is twin


def test_the_first_who_stops_a_run_counts() -> None:
    active = run("1")
    assert active.abort("first")
    assert active.abort("second")
    assert active.aborted_by == "first"


async def test_a_run_that_was_stopped_while_it_waited_ends_at_once() -> None:
    active = run("1")
    active.abort("rpc")
    with anyio.CancelScope() as scope:
        active.open(scope)
        await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_it_is_too_late_to_stop_a_run_that_has_talked() -> None:
    active = run("1")
    active.open(anyio.CancelScope())
    active.close()
    assert not active.abort("rpc")
    assert active.aborted_by is None


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
    for active in (accepted, withdrawn, aborted):
        active.admitted.set()
    withdrawn.withdrawn = True
    aborted.abort("rpc")
    for active in (withdrawn, aborted, new):
        host.steering.append(active)
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
    running, active = ActiveRuns(), run("1")
    running.add(active)
    assert running.working(SessionKey.main()) is None
    active.open(anyio.CancelScope())
    assert running.working(SessionKey.main()) is active
    assert running.working(SessionKey.parse("other")) is None
    active.abort("rpc")
    assert running.working(SessionKey.main()) is None  # it could not take a message any more
    active.close()
    assert running.working(SessionKey.main()) is None
