"""Port to the person who approves a call of a tool that a gate asks about."""

from typing import Any, Protocol

from msgspec import Struct

from skerry.model.caller import Caller
from skerry.model.ids import RunId, SessionId
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult
from skerry.ports.tool import Assessment


class PendingCall(Struct, frozen=True):
    """A call that needs a person's approval: the final arguments, and the run that makes it."""

    tool: str
    call_id: str
    arguments: dict[str, Any]
    assessment: Assessment
    caller: Caller
    run_id: RunId
    session_id: SessionId
    taint: frozenset[Origin] = frozenset()
    """Origins of the foreign text that the run had read."""
    model: tuple[str, str] = ("", "")
    """Provider and id of the model that made the call."""


class Approval(Struct, frozen=True):
    """A person's approval of one call, which has not begun."""

    id: str
    call: PendingCall
    """The call as it was approved; the binding is compared with that of the call that begins."""


class Approvals(Protocol):
    """Asks people about the calls of one run. Each answer is durable before it is returned."""

    async def ask(self, call: PendingCall) -> Approval | ToolResult:
        """Returns the approval, or the result that the model reads instead.

        Waits for a person at most 30 seconds; the result is then `approval-pending`.
        """
        ...

    async def begin(self, approval: Approval) -> bool:
        """Notes that the call begins; returns False if it began before, or may not any more."""
        ...

    async def refuse(self, approval: Approval, reason: str) -> None:
        """Notes that the approved call is not what it was, so that it never begins."""
        ...

    async def ended(self, approval: Approval, result: ToolResult) -> None:
        """Notes the outcome of a call that began."""
        ...
