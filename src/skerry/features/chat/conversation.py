"""One conversation over a connection that reconnects after a loss."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

import anyio

from skerry.cli.render import text_of
from skerry.client.client import GatewayClient
from skerry.client.discover import GatewayAddress
from skerry.client.frames import GatewayEvent
from skerry.client.models import model_status
from skerry.client.retry import NOTHING_TO_RETRY, RETRY
from skerry.infra.backoff import Backoff
from skerry.infra.supervise import in_background
from skerry.model.errors import ClientError, GatewayRefusedError, GatewayUnreachableError
from skerry.ports.model import ModelStatus

RUNNING: Final = frozenset({"started", "in_flight", "accepted"})
ENDS: Final = frozenset({"final", "aborted", "error"})
_JOINED: Final = "joined"
"""The answer belongs to another message's run, which this message entered."""
CUT: Final = "the gateway was interrupted; it answers again"
RECONNECTS: Final = Backoff(base=0.25, cap=8.0)
"""Maximum seconds between two attempts to reconnect."""


@dataclass(frozen=True, slots=True)
class Text:
    """Text that was added to the answer."""

    added: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Withdrawal of the text printed last."""

    reason: str = "its model failed; another one answers"


@dataclass(frozen=True, slots=True)
class JoinedRun:
    """The message entered another run, which also answers it."""

    host: str


@dataclass(frozen=True, slots=True)
class ConnectionChange:
    """The connection was lost (with the reason), or restored (without a reason)."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """End of an answer: `final`, `aborted` or `error`, and the message for the person."""

    state: str
    message: str = ""
    notices: tuple[str, ...] = ()
    """Notices about the answer."""


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """First screen of a chat: the model that answers, and the last messages as (role, text)."""

    model: ModelStatus
    messages: tuple[tuple[str, str], ...]
    commands: tuple[str, ...] = ()
    """Commands with which a message may begin, such as `/status`."""


Update = Text | Withdrawn | JoinedRun | ConnectionChange
Tell = Callable[[Update], None]


def _ignore(_: Update) -> None:
    """Ignores an update."""


@dataclass(slots=True)
class RunAnswer:
    """State of an answer; the wire sends its whole text so far each time."""

    tell: Tell = _ignore
    printed: str = ""
    cut: bool = False
    """True when the connection was lost after `printed`: later text may belong to another
    answer."""
    host: str = ""
    """Run that the message has entered, which answers it."""
    other_texts: dict[str, str] = field(default_factory=dict[str, str])
    """Texts of other runs so far, of which one may be the host."""
    notices: tuple[str, ...] = ()
    remedy: str = ""
    """Remedy after a failure."""

    def enter(self, host: str) -> None:
        """Continues with the answer of another run."""
        self.printed = self.other_texts.get(host, "")
        self.name(host)

    def name(self, host: str) -> None:
        """Sets the run that answers."""
        if host != self.host:
            self.host = host
            self.tell(JoinedRun(host))

    def overhear(self, run: str, payload: Mapping[str, Any]) -> None:
        """Stores the text of a `chat` event of another run."""
        self.other_texts[run] = text_of(payload.get("message"))
        if payload.get("state") in ENDS:
            del self.other_texts[run]

    def grow(self, text: str, *, whole: bool = False) -> str:
        """Adds the text so far; returns the part to print. A new message begins a new paragraph.

        A gateway that stopped in the middle of an answer may start it again; then the printed text
        is withdrawn.
        """
        if self.cut:
            if not whole and self.printed.startswith(text):
                return ""  # it may grow to the printed text and continue
            self.cut = False
            if not text.startswith(self.printed) and not self.printed.endswith(text):
                self.tell(Withdrawn(CUT))
                self.printed = text
                return text
        if text.startswith(self.printed):
            added = text[len(self.printed) :]
        elif self.printed.endswith(text):
            return ""  # the last of several messages, printed already
        else:
            added = "\n\n" + text
        self.printed = text
        return added


@dataclass(slots=True)
class ClientConversation(anyio.AsyncContextManagerMixin):
    """Use as `async with ClientConversation(...) as conversation:`; it reconnects by itself.

    `tell` is called with each update, in the thread of the event loop.
    """

    address: GatewayAddress
    session: str
    tell: Tell
    agent: str | None = None
    thinking: str | None = None
    _retried: dict[str, str] = field(default_factory=dict[str, str], init=False)
    """Runs that a `/retry` started, by its key."""
    _client: GatewayClient | None = field(default=None, init=False)
    _refusal: ClientError | None = field(default=None, init=False)
    _changed: anyio.Event = field(default_factory=anyio.Event, init=False)
    _waiting: anyio.CancelScope | None = field(default=None, init=False)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with in_background(self._keep):
            yield self

    async def open(self) -> FirstScreen:
        """Connects and returns the first screen.

        Raises:
            ClientError: no gateway responds, or it does not admit this client.
        """
        client = await self._connected()
        history = await client.request("chat.history", {**self._session_params, "limit": 4})
        listed = history.get("messages", [])
        messages = [
            (message.get("role", ""), text) for message in listed for text in _texts(message)
        ]
        visible = (
            message for message in messages if message[0] in {"user", "assistant"} and message[1]
        )
        commands = [str(command["name"]) for command in (await _commands(client))]
        model = await model_status(client)
        return FirstScreen(model, tuple(visible), tuple(f"/{name}" for name in commands))

    async def say(
        self,
        text: str,
        key: str,
        images: Sequence[Mapping[str, str]] = (),
        tell: Tell | None = None,
    ) -> Ending:
        """Sends a message, reports the answer's text as it grows, and returns its end.

        `tell` receives the updates of this answer; several answers may be in progress. When the
        connection is lost, the message is sent again with the same `key`, which the gateway runs
        once. `/retry` returns the answer of the run that it starts.

        Raises:
            ClientError: the message was refused, or the gateway no longer admits this client.
        """
        answer = RunAnswer(tell or self.tell)
        options = {"thinking": self.thinking, "attachments": list(images)}
        params: dict[str, Any] = {**self._session_params, "message": text, "idempotencyKey": key}
        params |= {key: value for key, value in options.items() if value}
        while True:
            client = await self._unless_stopped()
            if client is None:
                return Ending("aborted", "not connected; the gateway may still answer")
            try:
                return await self._exchange(client, params, answer)
            except GatewayUnreachableError:
                answer.cut = bool(answer.printed)  # it is sent again
            except GatewayRefusedError as error:
                if error.details_code != NOTHING_TO_RETRY:
                    raise
                answer.tell(Text(str(error)))
                return Ending("final")
            await client.closed.wait()

    async def stop(self, key: str) -> None:
        """Aborts the answer; `say` returns soon after."""
        if self._client is not None:
            await self._client.request(
                "chat.abort", {**self._session_params, "runId": self.run(key)}
            )
        elif self._waiting is not None:
            self._waiting.cancel()

    def run(self, key: str) -> str:
        """Returns the run of a message that was sent with the key."""
        return self._retried.get(key, key)

    @property
    def _session_params(self) -> dict[str, Any]:
        return {"sessionKey": self.session} | ({"agentId": self.agent} if self.agent else {})

    async def _exchange(
        self, client: GatewayClient, params: dict[str, Any], answer: RunAnswer
    ) -> Ending:
        with client.subscribe() as events:
            run, goes_on = await self._begin(client, params)
            if not goes_on:
                return await self._stored(client, run, answer)
            async for event in events:
                ending = self._take(event, run, answer)
                if ending is not None and ending.state == _JOINED:
                    return await self._stored(client, run, answer)
                if ending is not None:
                    return ending
        raise GatewayUnreachableError(self.address.url, "the connection was lost")

    async def _begin(self, client: GatewayClient, params: dict[str, Any]) -> tuple[str, bool]:
        """Sends a message; returns the answering run, and true when it is still running."""
        key = str(params["idempotencyKey"])
        if params["message"].strip() != RETRY:
            sent = await client.request("chat.send", params)
            return key, sent.get("status") in RUNNING
        if (
            run := self._retried.get(key)
        ) is not None:  # a second request would repeat the run again
            waited = await client.request("agent.wait", {"runId": run, "timeoutMs": 0})
            return run, waited.get("status") == "timeout"
        sent = await client.request("chat.retry", self._session_params)
        self._retried[key] = run = str(sent["runId"])
        return run, True

    def _take(self, event: GatewayEvent, key: str, answer: RunAnswer) -> Ending | None:
        payload = event.payload
        if not isinstance(payload, dict):
            return None
        run = str(payload.get("runId", ""))
        if event.event == "chat":
            if run in {key, answer.host}:
                return self._hear(payload, answer, is_own=run == key)
            answer.overhear(run, payload)
        elif event.event == "agent" and run in {key, answer.host}:
            _note(payload.get("data"), answer, is_own=run == key)
        return None

    def _hear(
        self, payload: Mapping[str, Any], answer: RunAnswer, *, is_own: bool
    ) -> Ending | None:
        text = text_of(payload.get("message"))
        if payload.get("replace") and text != answer.printed:
            answer.printed = text
            answer.tell(Withdrawn())
        elif text:
            answer.tell(Text(answer.grow(text, whole=payload.get("state") in ENDS)))
        state = str(payload.get("state", ""))
        if state not in ENDS:
            return None
        if is_own and answer.host:
            return Ending(_JOINED)  # the end of its host was not received
        reason = str(payload.get("errorMessage", ""))
        return Ending(state, f"{reason} {answer.remedy}".rstrip(), answer.notices)

    async def _stored(self, client: GatewayClient, key: str, answer: RunAnswer) -> Ending:
        """Reports the answer of a run that ended during a disconnection."""
        waited = await client.request("agent.wait", {"runId": key, "timeoutMs": 0})
        if waited.get("status") == "error":
            return Ending("error", f"{waited.get('error', '')} {waited.get('remedy', '')}".strip())
        params: dict[str, Any] = {**self._session_params, "limit": 1}
        messages = (await client.request("chat.history", params)).get("messages", [])
        if messages and messages[-1].get("role") == "assistant":
            answer.tell(Text(answer.grow(text_of(messages[-1]), whole=True)))
        return Ending("final")

    async def _unless_stopped(self) -> GatewayClient | None:
        """Waits for the connection; returns None when `stop` is called before."""
        with anyio.CancelScope() as self._waiting:
            return await self._connected()
        return None

    async def _connected(self) -> GatewayClient:
        while self._client is None:
            if self._refusal is not None:
                raise self._refusal
            await self._changed.wait()
        return self._client

    async def _keep(self) -> None:
        """Holds a connection; reconnects after a loss, until the gateway refuses."""
        failures, reason = 0, ""
        while True:
            try:
                async with GatewayClient(self.address) as client:
                    if reason:
                        self.tell(ConnectionChange())
                    failures, reason = 0, "connection lost"
                    self._turn(client)
                    await client.closed.wait()
                    self._turn(None)
                    self.tell(ConnectionChange(reason))
            except (GatewayRefusedError, GatewayUnreachableError) as error:
                if isinstance(error, GatewayRefusedError) or not reason:
                    self._refusal = error
                    self._turn(None)
                    return
            failures += 1
            await anyio.sleep(RECONNECTS.delay(failures))

    def _turn(self, client: GatewayClient | None) -> None:
        self._client = client
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


def _note(data: Any, answer: RunAnswer, *, is_own: bool) -> None:
    """Stores the data of an `agent` event: the entered run, notices, the remedy."""
    if not isinstance(data, dict):
        return
    host = str(data.get("joined", ""))
    if is_own and host and data.get("phase") == "start":
        answer.enter(host)
    elif is_own and host:
        answer.name(host)
    answer.notices = tuple(data.get("notices", answer.notices))
    answer.remedy = str(data.get("remedy", ""))


def _texts(message: Mapping[str, Any]) -> list[str]:
    """Returns the texts of a message; several when messages were collected."""
    collected = message.get("__openclaw", {}).get("said")
    return [str(part["text"]) for part in collected] if collected else [text_of(message)]


async def _commands(client: GatewayClient) -> Sequence[Mapping[str, Any]]:
    """Returns the commands of the gateway; an older gateway has no such method."""
    try:
        listed = await client.request("commands.list")
    except GatewayRefusedError:
        return ()
    commands: Sequence[Mapping[str, Any]] = listed.get("commands", ())
    return commands
