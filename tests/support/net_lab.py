"""A small internet of real servers on loopback: names, addresses, and a count of connections.

The client under test has its own policy; only its resolver and its dialling are the lab's, which
takes an address such as 93.184.216.34 to the server that plays it.
"""

import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.abc
import httpx2
from anyio.streams.tls import TLSListener
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from skerry.infra.clock import SystemClock
from skerry.infra.sockets import Stream, connect_addresses
from skerry.net.safe_fetch import SafeClient
from skerry.policy.network import NetworkRules

PUBLIC = "93.184.216.34"
OTHER = "1.1.1.1"
DAY = dt.timedelta(days=1)


@dataclass
class RecordedRequest:
    """A request as a server received it."""

    address: str
    port: int
    head: bytes
    body: bytes

    @property
    def path(self) -> str:
        return self.head.split(b" ")[1].decode()

    @property
    def method(self) -> str:
        return self.head.split(b" ")[0].decode()

    @property
    def headers(self) -> dict[str, str]:
        rows = (row.partition(b": ") for row in self.head.split(b"\r\n")[1:] if row)
        return {name.decode().lower(): value.decode() for name, _, value in rows}


Answer = Callable[[anyio.abc.ByteStream, RecordedRequest], Awaitable[None]]


def reply(body: bytes = b"ok", status: str = "200 OK", **headers: str) -> Answer:
    """Returns a handler that always sends this response; `_` in a header's name is a hyphen."""
    fields = {"content_length": str(len(body)), **headers}
    rows = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    data = "\r\n".join((f"HTTP/1.1 {status}", *rows, "", "")).encode() + body

    async def answer(stream: anyio.abc.ByteStream, _: RecordedRequest) -> None:
        await stream.send(data)

    return answer


def redirect(location: str, status: int = 302) -> Answer:
    return reply(b"", f"{status} Found", location=location)


@dataclass
class Lab:
    """Names and servers; `connections` and `asked` have all that any server saw."""

    group: anyio.abc.TaskGroup
    names: dict[str, list[list[str]]] = field(default_factory=dict)
    """Answers for each name, in turn; the last is repeated."""
    connections: list[tuple[str, int]] = field(default_factory=list)
    asked: list[RecordedRequest] = field(default_factory=list)
    sni: list[str] = field(default_factory=list)
    resolved: list[str] = field(default_factory=list)
    ports: dict[tuple[str, int], int] = field(default_factory=dict)
    listeners: list[anyio.abc.AsyncResource] = field(default_factory=list)
    close_after: bool = False
    """True when servers close each connection after the first answer."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    """Set when a client has ended a connection."""

    async def serve(
        self, address: str, port: int, answer: Answer, tls: ssl.SSLContext | None = None
    ) -> None:
        """Starts the server that plays this address."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
        chosen = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - anyio's
        self.ports[address, port] = chosen
        self.listeners.append(listener)
        if tls is not None:
            tls.sni_callback = lambda _, name, __: self.sni.append(str(name))

        async def serve(stream: anyio.abc.ByteStream) -> None:
            async with stream:
                try:
                    await self._serve(stream, address, port, answer)
                except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                    self.ended.set()

        accept = TLSListener(listener, tls, standard_compatible=False) if tls else listener
        self.group.start_soon(accept.serve, serve)

    async def _serve(
        self, stream: anyio.abc.ByteStream, address: str, port: int, answer: Answer
    ) -> None:
        self.connections.append((address, port))
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                data += await stream.receive()
            head, _, body = data.partition(b"\r\n\r\n")
            request = RecordedRequest(address, port, head, b"")
            length = int(request.headers.get("content-length", "0"))
            while len(body) < length:
                body += await stream.receive()
            request.body, data = body[:length], body[length:]
            self.asked.append(request)
            await answer(stream, request)
            if self.close_after:
                return

    async def resolve(self, host: str) -> list[str]:
        """Answers as a name server; an empty list of turns never answers."""
        self.resolved.append(host)
        turns = self.names.get(host, [[]])
        if not turns:
            raise TimeoutError
        return turns.pop(0) if len(turns) > 1 else turns[0]

    async def dial(self, addresses: Sequence[str], port: int, seconds: float | None) -> Stream:
        """Connects to the server that plays the first of the addresses that one plays."""
        for address in addresses:
            if (address, port) in self.ports:
                return await connect_addresses(["127.0.0.1"], self.ports[address, port], seconds)
        raise httpx2.ConnectError("nobody listens there")

    def client(self, rules: NetworkRules | None = None) -> SafeClient:
        """Returns a client with the real policy in this internet."""
        return SafeClient(rules or NetworkRules(), resolve=self.resolve, dial=self.dial)


@asynccontextmanager
async def lab(**names: str | list[list[str]]) -> AsyncIterator[Lab]:
    """Runs a lab; `a_example="1.1.1.1"` names an address, a list of lists gives answers in turn."""
    turns = {
        name.replace("_", "."): [[given]] if isinstance(given, str) else given
        for name, given in names.items()
    }
    listeners: list[anyio.abc.AsyncResource] = []
    try:
        async with anyio.create_task_group() as group:
            with anyio.fail_after(60):
                yield Lab(group, turns, listeners=listeners)
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            for listener in listeners:
                await listener.aclose()


def certificate(folder: Path, *names: str) -> tuple[ssl.SSLContext, Path]:
    """Returns the TLS settings of a server with these names, and the file of its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lab")])
    now = dt.datetime.fromtimestamp(SystemClock().now_ms() / 1000, dt.UTC)
    sans: list[x509.GeneralName] = []
    for name in names:
        try:
            sans.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            sans.append(x509.DNSName(name))
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .add_extension(x509.SubjectAlternativeName(sans), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "lab.pem"
    file.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    private = folder / "lab.key"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, private)
    return context, file
