"""Connections of clients: handshake, requests in order, responses and events."""

import logging
from collections.abc import Coroutine
from typing import Any, Final
from uuid import uuid4

import anyio
import anyio.abc
from starlette.types import Receive, Scope, Send

from skerry import __version__
from skerry.gateway import attachments, dispatch, frames, shared_secret
from skerry.gateway.context import GatewayContext
from skerry.gateway.dispatch import MethodTable
from skerry.gateway.frames import (
    MAX_BUFFERED,
    MAX_PAYLOAD,
    ErrorCode,
    ErrorShape,
    Json,
    Malformed,
    RequestFrame,
)
from skerry.gateway.handshake import Admitted, Handshake, admit, introduction
from skerry.gateway.handshake_errors import HandshakeError
from skerry.gateway.method import Call, RefusedError
from skerry.gateway.methods.system import snapshot
from skerry.gateway.nodes import ConnectedNode
from skerry.gateway.peer import ClientPeer
from skerry.gateway.peer import peer as peer_of
from skerry.gateway.presence import PresenceEntry
from skerry.gateway.protocol import STATE_KEY, GatewayProtocol, OutgoingFrames
from skerry.gateway.protocol_versions import VERSIONS
from skerry.infra import heap
from skerry.infra.supervise import in_daemon_thread
from skerry.policy import access
from skerry.policy.access import Role, Verb
from skerry.policy.decide import Request, decide
from skerry.sdk.features import registered

logger = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 10.0
MAX_IN_FLIGHT: Final = 256
"""Limit of concurrently waiting requests of one client."""

MAX_WORKING: Final = 16
"""Limit of requests in progress; at the limit no further request is read."""
MAX_UNREAD: Final = 1024 * 1024
"""Limit of unread bytes of a client; above it no further request is read."""
_TOOL_EVENTS: Final = "tool-events"
_MAX_HANDSHAKES: Final = 256


class Accept:
    """Accepts WebSockets, with a limit on concurrent handshakes.

    Beyond the limit the oldest handshake is closed: a normal client has introduced itself by then,
    and an attacker with many open handshakes cannot block others.
    """

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._methods = MethodTable(context.plugins)
        self._handshakes: dict[anyio.CancelScope, None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one client."""
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})
        protocol = scope["state"][STATE_KEY]
        peer = peer_of(scope, self._context.config().gateway.trusted_proxies)
        client = ClientConnection(
            self._context, self._methods, self._context.failures, peer, protocol, receive
        )
        if len(self._handshakes) >= _MAX_HANDSHAKES:
            oldest = next(iter(self._handshakes))
            del self._handshakes[oldest]
            oldest.cancel()
        admitted = None
        with anyio.CancelScope() as handshake:
            self._handshakes[handshake] = None
            try:
                admitted = await client.shake_hands()
            finally:
                self._handshakes.pop(handshake, None)
        if handshake.cancelled_caught:
            protocol.end(1013, "too many handshakes")
        if admitted is not None:
            await client.serve(admitted)


class ClientConnection:
    """One WebSocket from its challenge to its end."""

    def __init__(
        self,
        context: GatewayContext,
        methods: MethodTable,
        failures: shared_secret.Failures,
        peer: ClientPeer,
        protocol: GatewayProtocol,
        receive: Receive,
    ) -> None:
        self.id = str(uuid4())
        self._context = context
        self._methods = methods
        self._failures = failures
        self._protocol = protocol
        self._receive = receive
        self._peer = peer
        self._out = OutgoingFrames(protocol, self._give_up, self._resume)
        self._working = 0
        self._resumed = anyio.Event()
        self._waiting: set[Coroutine[Any, Any, Json]] = set()
        self._tasks: anyio.abc.TaskGroup | None = None

    async def shake_hands(self) -> Admitted | None:
        """Challenges the client; returns it when admitted, else sends the error and closes."""
        nonce = str(uuid4())
        challenge = {"nonce": nonce, "ts": self._context.clock.now_ms(), "capabilities": []}
        head = frames.event("connect.challenge", challenge)
        self._protocol.write((frames.unnumbered(head),))
        try:
            with anyio.fail_after(HANDSHAKE_SECONDS):
                text = await self._next_text()
                if text is None:
                    return None
                try:
                    handshake = Handshake(self._context, self._failures, self._peer, nonce)
                    return await admit(frames.parse(text), handshake)
                except HandshakeError as error:
                    await self._refuse(error)
        except TimeoutError:
            self._protocol.end(1000)
        return None

    async def serve(self, admitted: Admitted) -> None:
        """Serves the client until it disconnects or is closed."""
        client = admitted.params.client
        about = (self.id, client.id, client.mode, admitted.protocol)
        logger.info("connection %s opened: %s/%s, protocol %d", *about)
        try:
            async with anyio.create_task_group() as self._tasks:
                self._welcome(admitted)
                await self._read(admitted)
                self._tasks.cancel_scope.cancel()
        finally:
            self._unregister()
            logger.info("connection %s closed", self.id)

    def event(self, head: bytes, *, droppable: bool) -> None:
        """Sends an event; a droppable one is dropped when the client is slow."""
        self._out.event(head, droppable=droppable)

    async def _refuse(self, error: HandshakeError) -> None:
        if error.is_guess:
            now = anyio.current_time()
            await anyio.sleep(self._failures.delay(self._peer, now))
        if error.shape is not None:
            self._protocol.write((frames.refusal(error.request_id, error.shape),))
        self._protocol.end(error.close_code, error.reason)

    def _welcome(self, admitted: Admitted) -> None:
        """Answers `connect` and starts sending events, without a gap after the snapshot."""
        context = self._context
        self._failures.forget(self._peer)
        self._protocol.admit()
        context.presence.join(self.id, self._presence(admitted))
        self._register(admitted)
        self._out.response(frames.response(admitted.request_id, self._hello(admitted)))
        tools = _TOOL_EVENTS in admitted.params.caps
        protocol, role, scopes = admitted.protocol, admitted.role, admitted.scopes
        context.broadcast.add(self, protocol, role, scopes, tools=tools)

    def _hello(self, admitted: Admitted) -> Json:
        state = snapshot(self._context)
        if not decide(Request(admitted.actor, Verb.RECEIVE, need=access.READERS)).allowed:
            state |= {"presence": [], "health": {}}
        granted: dict[str, Json] = {"role": admitted.role, "scopes": admitted.scopes}
        if admitted.device is not None:
            granted |= {
                "deviceToken": admitted.device.token,
                "issuedAtMs": admitted.device.issued_at,
            }
        hello = {
            "type": "hello-ok",
            "protocol": admitted.protocol,
            "server": {"version": __version__, "connId": self.id},
            "features": {
                "methods": self._methods.named,
                "events": self._methods.events,
                "capabilities": [],
            },
            "snapshot": state,
            "auth": granted,
            "policy": {
                "maxPayload": MAX_PAYLOAD,
                "maxBufferedBytes": MAX_BUFFERED,
                "tickIntervalMs": self._context.config().gateway.tick_interval_ms,
                "attachments": attachments.POLICY,
            },
        }
        node = self._context.nodes.of(self.id)
        if node is not None:
            for load in registered().node_hello:
                hello |= load()(self._context, node, admitted.protocol)
        return VERSIONS[admitted.protocol].hello(hello)

    def _register(self, admitted: Admitted) -> None:
        """Registers the connection of a device, and a node for commands."""
        device = admitted.device
        if device is None:
            return
        self._context.clients.join(self, device.device_id, admitted.role)
        if admitted.role is Role.NODE:
            params = admitted.params
            self._context.nodes.join(
                ConnectedNode(
                    device.device_id,
                    self,
                    introduction(params, self._peer.display_address),
                    tuple(params.commands),
                    self._context.clock.now_ms(),
                    self._peer.host,
                )
            )

    def _presence(self, admitted: Admitted) -> PresenceEntry:
        client = admitted.params.client
        host = client.display_name or client.id
        return PresenceEntry(
            host=host,
            ip=self._peer.display_address,
            version=client.version,
            platform=client.platform,
            mode=client.mode,
            reason="connect",
            text=f"Client: {host} · app {client.version} · mode {client.mode}",
            ts=self._context.clock.now_ms(),
            device_family=client.device_family,
            model_identifier=client.model_identifier,
            instance_id=client.instance_id,
            roles=(admitted.role,),
            scopes=admitted.scopes,
        )

    def _unregister(self) -> None:
        self._context.broadcast.remove(self)
        self._context.clients.remove(self)
        self._context.nodes.remove(self)
        self._context.presence.remove(self.id)
        self._out.close()
        for outcome in self._waiting:
            outcome.close()  # its task was cancelled before it began

    def close(self, code: int, reason: str) -> None:
        """Closes the connection after the queued frames, and cancels its requests."""
        self._protocol.end(code, reason)
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()

    def _give_up(self) -> None:
        """Closes the connection of a client that does not read."""
        self.close(1008, "slow consumer")

    async def _read(self, admitted: Admitted) -> None:
        while (size := await self._read_one(admitted)) is not None:
            if size >= heap.LARGE and self._tasks is not None:
                self._tasks.start_soon(in_daemon_thread, heap.give_back, "heap")
            await self._wait_for_room()

    async def _read_one(self, admitted: Admitted) -> int | None:
        """Handles the next message; returns its length, or None when the client disconnected."""
        text = await self._next_text()
        if text is None:
            return None
        match frames.parse(text):
            case RequestFrame() as frame:
                self._handle(admitted, frame)
            case Malformed(request_id, problem):
                message = f"invalid request frame: {problem}"
                shape = ErrorShape(ErrorCode.INVALID_REQUEST, message)
                self._out.response(frames.refusal(request_id, shape))
        return len(text)

    async def _wait_for_room(self) -> None:
        """Delays the client's next request while too many are in progress, or too much is unread.

        So a client that sends many requests and reads nothing does not delay others.
        """
        while self._working >= MAX_WORKING or self._out.waiting_bytes > MAX_UNREAD:
            await self._resumed.wait()

    def _resume(self) -> None:
        self._resumed.set()
        self._resumed = anyio.Event()

    async def _next_text(self) -> str | None:
        """Returns the next message; None after the client disconnected. Binary is read as empty."""
        while True:
            message = await self._receive()
            if message["type"] == "websocket.receive":
                return message.get("text") or ""
            if message["type"] == "websocket.disconnect":
                return None

    def _handle(self, admitted: Admitted, frame: RequestFrame) -> None:
        warnings: list[Json] = []

        def respond(payload: Json) -> None:
            self._out.response(frames.response(frame.id, dispatch.with_warnings(payload, warnings)))

        call = Call(
            self._context,
            admitted.actor,
            admitted.scopes,
            admitted.protocol,
            self.id,
            admitted.device.device_id if admitted.device else None,
            respond,
            warnings=warnings,
        )
        try:
            outcome = self._methods.call(frame, call)
            if isinstance(outcome, Coroutine):
                self._start(call, frame, outcome)
            else:
                call.respond(outcome)
        except Exception as error:  # noqa: BLE001 - a method's failure is its caller's answer
            self._fail(call, frame, error)

    def _start(self, call: Call, frame: RequestFrame, outcome: Coroutine[Any, Any, Json]) -> None:
        if self._tasks is None or len(self._waiting) >= MAX_IN_FLIGHT:
            outcome.close()
            raise RefusedError(
                f"more than {MAX_IN_FLIGHT} requests are waiting",
                code=ErrorCode.UNAVAILABLE,
                details={"code": "request.busy"},
                retryable=True,
            )
        self._waiting.add(outcome)
        self._working += not self._methods.waits(frame.method)
        self._tasks.start_soon(self._finish, call, frame, outcome)

    async def _finish(
        self, call: Call, frame: RequestFrame, outcome: Coroutine[Any, Any, Json]
    ) -> None:
        try:
            call.respond(await outcome)
        except Exception as error:  # noqa: BLE001 - a method's failure is its caller's answer
            self._fail(call, frame, error)
        finally:
            self._waiting.discard(outcome)
            self._working -= not self._methods.waits(frame.method)
            self._resume()

    def _fail(self, call: Call, frame: RequestFrame, error: Exception) -> None:
        shape, payload = dispatch.shape(error, frame.method)
        self._out.response(frames.refusal(frame.id, call.version.error(shape), payload))
