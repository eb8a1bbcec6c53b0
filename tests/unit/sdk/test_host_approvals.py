"""Questions about hosts: asked once, kept for their time, and never open without an answer."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from skerry.model.errors import ToolError
from skerry.sdk.host_approvals import ALLOWED_SECONDS, MAX_OPEN, REFUSED_SECONDS, HostApprovals


class Desk:
    """Answers requests, each when `go` is set."""

    def __init__(self, decision: str | None = "allow-once") -> None:
        self.decision = decision
        self.asked: list[Mapping[str, Any]] = []
        self.go = anyio.Event()
        self.go.set()
        self.now = 0.0
        self.hosts = HostApprovals(self.request, lambda: self.now)

    async def request(self, method: str, params: Mapping[str, Any], scopes: tuple[str, ...]) -> Any:
        assert (method, scopes) == ("exec.approval.request", ("operator.approvals",))
        self.asked.append(params)
        with anyio.fail_after(60):
            await self.go.wait()
        return {"id": "x", "decision": self.decision}

    async def ask(self, host: str = "a.example", session: str = "agent:main:main") -> bool:
        return await self.hosts("main", session, host, 443)


async def test_an_allowed_host_is_asked_about_once_an_hour_in_its_session() -> None:
    desk = Desk()
    assert [await desk.ask(), await desk.ask()] == [True, True]
    assert desk.asked[0]["command"] == "connect to a.example:443"
    assert (desk.asked[0]["host"], desk.asked[0]["sessionKey"]) == ("sandbox", "agent:main:main")
    assert len(desk.asked) == 1
    await desk.ask(session="agent:main:other")
    desk.now = ALLOWED_SECONDS
    await desk.ask()
    assert len(desk.asked) == 3


@pytest.mark.parametrize("decision", ["deny", None, "allow-always", "yes"])
async def test_anything_but_an_allow_refuses_for_a_minute(decision: str | None) -> None:
    desk = Desk(decision)
    assert [await desk.ask(), await desk.ask()] == [False, False]
    assert len(desk.asked) == 1
    desk.now = REFUSED_SECONDS
    await desk.ask()
    assert len(desk.asked) == 2


async def test_where_nobody_can_be_asked_a_host_is_refused() -> None:
    async def refuse(*_: object) -> Any:
        raise ToolError("no gateway")

    assert await HostApprovals(refuse)("main", "s", "a.example", 443) is False


async def test_equal_questions_are_asked_once_and_few_at_a_time() -> None:
    desk = Desk()
    desk.go = anyio.Event()
    answers: list[bool] = []

    async def ask(host: str) -> None:
        answers.append(await desk.ask(host))

    async with anyio.create_task_group() as group:
        for number in range(MAX_OPEN):
            group.start_soon(ask, f"h{number}.example")
        group.start_soon(ask, "h0.example")
        await anyio.wait_all_tasks_blocked()
        assert await desk.ask("more.example") is False
        assert len(desk.asked) == MAX_OPEN
        desk.go.set()
    assert answers == [True] * (MAX_OPEN + 1)
