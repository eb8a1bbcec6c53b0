"""Makes the `ToolHost` that tools of features get."""

import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Raw

from skerry.app.services import Services
from skerry.gateway.context import GatewayContext
from skerry.gateway.frames import Json, RequestFrame
from skerry.gateway.late import dispatch
from skerry.gateway.method import Call
from skerry.model.errors import ToolError
from skerry.model.ids import AgentId, ChannelId, RunId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.origin import Origin
from skerry.model.outbound import Additions, Content, OutboundMedia
from skerry.model.rights import Rights
from skerry.model.skill import SkillSet
from skerry.policy.access import Role
from skerry.policy.decide import Actor
from skerry.runtime.delivery import Senders
from skerry.sdk.search import SearchProvider
from skerry.sdk.tool_host import ToolHost
from skerry.store import outbox

_PROTOCOL: Final = 4


def tool_host(
    context: GatewayContext,
    environ: Mapping[str, str],
    delivery: Senders | None = None,
    services: Services | None = None,
    searches: Mapping[str, SearchProvider] | None = None,
    skills: Callable[[AgentId], SkillSet] | None = None,
) -> ToolHost:
    """Returns the host with which tools are made at the first request to a model."""
    return ToolHost(
        start=partial(_start, services or Services(context.clock)),
        config=context.config,
        store=context.store,
        environ=environ,
        clock=context.clock,
        notify=context.system_events.add,
        call=MethodCalls(context),
        dispatcher=context.dispatcher,
        on_config_change=context.configuration.on_change,
        internal_runs=context.internal_runs,
        outgoing=DirectMessages(context, delivery) if delivery else None,
        redact=context.approvals.redact if context.approvals else str,
        searches=searches if searches is not None else {},
        skills=skills or (lambda _: SkillSet()),
    )


def _start(services: Services, work: Callable[[], Awaitable[None]], name: str) -> None:
    """Runs work as a service, which is removed when the work has returned.

    Work that raises is started again, so that a full disk at its end loses nothing.
    """

    async def run() -> None:
        await work()
        services.stop(name)

    services.start(name, [(name, run)])


class MethodCalls:
    """Calls gateway methods for tools, as a client with the given scopes would."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._table: dispatch.MethodTable | None = None

    async def __call__(
        self, method: str, params: Mapping[str, Any], scopes: tuple[str, ...]
    ) -> Any:
        """Calls a method and returns its payload as JSON values.

        Raises:
            ToolError: the method failed; it has the message that a client would get.
        """
        if self._table is None:
            self._table = dispatch.MethodTable(self._context.plugins)
        frame = RequestFrame("tool", method, Raw(msgspec.json.encode(params)))
        actor = Actor(Origin.OWNER, role=Role.OPERATOR, scopes=scopes, rights=Rights.NONE)
        call = Call(self._context, actor, scopes, _PROTOCOL, "tool", None, _ignore)
        try:
            answer = self._table.call(frame, call)
            payload = await answer if isinstance(answer, Coroutine) else answer
        except Exception as error:
            # A method may fail in any way; the model gets the error that a client would get.
            raise ToolError(dispatch.shape(error, method)[0].message) from error
        return msgspec.json.decode(msgspec.json.encode(payload))  # parts of it may be JSON


class DirectMessages:
    """Adds direct messages to the outbox. Implements `sdk.tool_host.Outgoing`."""

    def __init__(self, context: GatewayContext, delivery: Senders) -> None:
        self._context = context
        self._delivery = delivery

    @property
    def channels(self) -> tuple[str, ...]:
        """Returns the names of the platforms with an account."""
        return tuple(dict.fromkeys(str(channel) for channel, _ in self._delivery.senders))

    def takes_files(self, channel: str) -> bool:
        """Returns True when the first account of a platform can send files."""
        return self._delivery.takes_files(self._to(channel, ""))

    def _to(self, channel: str, person: str) -> ReplyTo:
        accounts = {str(name): account for name, account in reversed(self._delivery.senders)}
        return ReplyTo(ChannelId(channel), accounts[channel], Peer(PeerKind.DIRECT, person), "")

    async def send(
        self, channel: str, person: str, text: str, media: OutboundMedia | None = None
    ) -> int:
        """Queues a direct message from the first account of a platform; returns its parts' number.

        Raises:
            KeyError: the platform has no account.
        """
        to = self._to(channel, person)
        parts: list[str | Content] = []
        if text.strip():
            parts += self._delivery.parts(to, text)
        if media is not None:
            parts.append(Content("", Additions(media=media)))
        run_id, now = RunId(f"message-{secrets.token_hex(8)}"), self._context.clock.now_ms()
        await self._context.store.write(lambda unit: outbox.add(unit, run_id, 0, to, parts, now))
        self._delivery.wake(to)
        return len(parts)


def _ignore(_: Json) -> None:
    """Drops a first response: a tool waits for the last one."""
