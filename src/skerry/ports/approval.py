"""Port to the person who approves a tool call for which a gate requires approval."""

from typing import Any, Protocol

from msgspec import Struct

from skerry.model.caller import Caller
from skerry.model.ids import RunId, SessionId
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult
from skerry.ports.tool import Assessment


class PendingCall(Struct, frozen=True):
    """A call that needs a person's approval: its final arguments, and the run that makes it."""

    tool: str
    call_id: str
    arguments: dict[str, Any]
    assessment: Assessment
    caller: Caller
    run_id: RunId
    session_id: SessionId
    taint: frozenset[Origin] = frozenset()
    """Origins of the text in the run's context that the owner did not write."""
    model: tuple[str, str] = ("", "")
    """Provider and id of the model that made the call."""


class Approval(Struct, frozen=True):
    """A person's approval of one call that has not begun."""

    id: str
    call: PendingCall
    """The call as it was approved. Before the call begins, its present binding is compared with
    this one's."""


class Approvals(Protocol):
    """Requests approvals for the calls of one run. Each answer is stored before it is returned."""

    async def ask(self, call: PendingCall) -> Approval | ToolResult:
        """Returns the approval, or the result that the model reads instead.

        Waits at most 30 seconds for a person; after that the result is `approval-pending`.
        """
        ...

    async def begin(self, approval: Approval) -> bool:
        """Records that the call begins.

        Returns False if it had begun before, or if the approval is not valid any more.
        """
        ...

    async def refuse(self, approval: Approval, reason: str) -> None:
        """Withdraws an approval because the call has changed; the call never begins."""
        ...

    async def ended(self, approval: Approval, result: ToolResult) -> None:
        """Records the outcome of a call that began."""
        ...
