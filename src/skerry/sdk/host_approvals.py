"""Approvals of network hosts that sandboxed commands want to reach."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio

from skerry.model.errors import ToolError

SECONDS: Final = 120.0
"""Time limit of a question; the connection of the command waits meanwhile."""
ALLOWED_SECONDS: Final = 3600.0
"""Time for which an approval is valid in its session."""
REFUSED_SECONDS: Final = 60.0
"""Time after a refusal or an unanswered question in which it is not asked again."""
MAX_OPEN: Final = 5
"""Limit of open questions of a session; further hosts are refused."""
MAX_ANSWERS: Final = 1000
"""Limit of stored answers; the oldest is dropped."""
_SCOPES: Final = ("operator.approvals",)
_REASON: Final = (
    "a command in the sandbox wants to reach it; allowed for this conversation for an hour"
)

Request = Callable[[str, Mapping[str, Any], tuple[str, ...]], Awaitable[Any]]
"""Calls a gateway method with parameters and scopes, and returns its payload."""
_Key = tuple[str, str, str, int]


class HostApprovals:
    """Asks and caches approvals of hosts; simultaneous equal questions are asked once."""

    def __init__(self, request: Request, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._request = request
        self._monotonic = monotonic
        self._answers: dict[_Key, tuple[float, bool]] = {}
        self._open: dict[_Key, anyio.Event] = {}

    async def __call__(self, agent: str, session: str, host: str, port: int) -> bool:
        """Returns True when a person allowed the host; False when refused or not answered in time.

        Args:
            agent: Id of the agent.
            session: Session key of the command.
            host: Name or address of the host.
            port: Port that the command wants to reach.

        """
        key = (agent, session, host, port)
        if (answer := self._stored_answer(key)) is not None:
            return answer
        if key in self._open:
            with anyio.move_on_after(SECONDS):
                await self._open[key].wait()
            return self._stored_answer(key) or False
        if sum(open_key[:2] == key[:2] for open_key in self._open) >= MAX_OPEN:
            return False
        answered = self._open[key] = anyio.Event()
        try:
            is_allowed = await self._request_approval(key)
            until = self._monotonic() + (ALLOWED_SECONDS if is_allowed else REFUSED_SECONDS)
            self._keep(key, until, is_allowed)
            return is_allowed
        finally:
            del self._open[key]
            answered.set()

    async def _request_approval(self, key: _Key) -> bool:
        agent, session, host, port = key
        params = {
            "command": f"connect to {host}:{port}",
            "host": "sandbox",
            "agentId": agent,
            "sessionKey": session,
            "warningText": _REASON,
            "timeoutMs": int(SECONDS * 1000),
        }
        try:
            answer = await self._request("exec.approval.request", params, _SCOPES)
        except ToolError:
            return False  # no person can be asked
        return isinstance(answer, dict) and answer.get("decision") == "allow-once"

    def _stored_answer(self, key: _Key) -> bool | None:
        until, is_allowed = self._answers.get(key, (0.0, False))
        return is_allowed if self._monotonic() < until else None

    def _keep(self, key: _Key, until: float, is_allowed: bool) -> None:  # noqa: FBT001 - an answer
        self._answers.pop(key, None)
        self._answers[key] = until, is_allowed
        while len(self._answers) > MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]
