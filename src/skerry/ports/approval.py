"""Port to the person who approves a call of a tool that a gate asks about."""

from typing import Any, Protocol

from msgspec import Struct

from skerry.model.caller import Caller
from skerry.model.ids import RunId, SessionId
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


class Approval(Struct, frozen=True):
    """A person's approval of one call, which is noted as begun: the call runs now, once."""

    id: str
    assessment: Assessment
    """The assessment that was approved; its binding is compared with that of the call."""


class Approvals(Protocol):
    """Asks people about calls. Each answer is durable before it is returned."""

    async def ask(self, call: PendingCall) -> Approval | ToolResult:
        """Returns the approval, or the result that the model reads instead.

        Waits for a person at most 30 seconds; the result is then `approval-pending`.
        """
        ...

    async def ended(self, approval: Approval, result: ToolResult) -> None:
        """Notes the outcome of an approved call."""
        ...
