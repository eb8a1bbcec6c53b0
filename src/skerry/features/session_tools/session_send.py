"""The tool `sessions_send`: sends a message to another conversation and returns its answer."""

import secrets
from functools import partial
from typing import Any, Final

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field

from skerry.features.session_tools import tables
from skerry.features.session_tools.common import ALIASES, HostTool, caller_of, reply
from skerry.features.session_tools.exchange import Follower
from skerry.features.session_tools.tables import AgentExchange, Stage
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.ids import RunId, SessionKey
from skerry.model.origin import Origin
from skerry.model.rights import Rights
from skerry.model.run import RunRequest
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.ports.tool import ToolContext
from skerry.sdk.arguments import named

MAX_SECONDS: Final = 300


class SessionsSendParams(BaseModel):
    """Parameters of `sessions_send`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # The names of OpenClaw's tool, with which models are familiar.
    sessionKey: str | None = Field(default=None, max_length=512)  # noqa: N815
    label: str | None = Field(default=None, max_length=512)
    agentId: str | None = Field(default=None, max_length=64)  # noqa: N815
    message: str = Field(min_length=1, max_length=100_000)
    timeoutSeconds: int = Field(  # noqa: N815
        default=30, ge=0, le=MAX_SECONDS, description="0 does not wait."
    )


class SessionsSend(HostTool):
    """Starts a turn in another conversation that the calling one may see.

    The message does not have the owner's authority there: its origin is a tool, so that the run is
    tainted, and text that looks like a command is not executed.
    """

    verb = Verb.USE
    spec = ToolSpec(
        "sessions_send",
        "Send a message to another session and get its reply.",
        SessionsSendParams.model_json_schema(),
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns `{runId, status, reply?, error?, sessionKey, delivery}` as JSON."""
        params = SessionsSendParams.model_validate(named(arguments, ALIASES, ("message",)))
        caller = caller_of(context)
        key = await self._visible_key(
            caller, params.sessionKey or await self._labelled(params, caller)
        )
        if key == caller.key:
            raise ToolError("This is your own session. Answer here instead.")
        runs = self._host.internal_runs
        if runs is None:
            raise ToolError("The tool needs a running gateway.")
        dispatcher = runs.dispatch
        await self._check_turn(context, str(key))
        run = RunId(f"send-{secrets.token_hex(8)}")
        text = f"[Message of session {caller.key}]\n{params.message}"
        request = RunRequest(
            run,
            key,
            text,
            origin=caller.origin,
            rights=Rights.NONE,
            scopes=(),
            behalf=caller.askers,
            text_origin=Origin.TOOL,
        )
        exchange = AgentExchange(
            run, str(caller.key), str(key), replace(request, text=""), 0, Stage.REQUESTED, run
        )
        await dispatcher.submit(request, lambda unit: tables.put(unit, exchange))
        self._host.start(partial(Follower(dispatcher).follow, exchange), f"exchange {run}")
        answer: dict[str, Any] = {
            "runId": run,
            "status": "accepted",
            "sessionKey": str(key),
            "delivery": {"status": "pending", "mode": "announce"},
        }
        if params.timeoutSeconds == 0:
            return reply(answer)
        result = await dispatcher.wait(run, params.timeoutSeconds)
        if result is None:
            return reply(answer | {"status": "timeout"})
        if result.error is not None:
            return reply(answer | {"status": "error", "error": result.error.message})
        return reply(answer | {"status": "ok", "reply": "\n\n".join(result.payloads)})

    async def _check_turn(self, context: ToolContext, target: str) -> None:
        """Refuses a message that would start an exchange within an exchange.

        Raises:
            ToolError: the run is a turn of an exchange, or answers the session that it addresses.
        """
        run_id = context.run_id
        exchange = await self._host.store.read(lambda reader: tables.of_run(reader, run_id))
        if exchange is not None and (
            exchange.stage is not Stage.REQUESTED or exchange.asker == target
        ):
            raise ToolError("You answer another session: it receives your reply anyway.")

    async def _labelled(self, params: SessionsSendParams, caller: Caller) -> str:
        """Returns the key of the visible conversation with the label.

        Raises:
            ToolError: no visible conversation has the label, or several have it.
        """
        if params.label is None:
            raise ToolError("sessionKey required")
        rows = (await self._ask("sessions.list", {"limit": 1000}))["sessions"]
        keys = [
            row["key"]
            for row in rows
            if row.get("label") == params.label
            and params.agentId in {None, SessionKey.parse(row["key"]).agent}
            and await self._sees(caller, row["key"])
        ]
        if len(keys) != 1:
            count = "several sessions have" if keys else "no session has"
            raise ToolError(f"{count} the label {params.label}. Pass its sessionKey.")
        return str(keys[0])
