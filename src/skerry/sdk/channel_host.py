"""`ChannelHost`: the parts of the gateway that an account of a chat platform uses."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from skerry.infra.clock import Clock
from skerry.model.ids import AccountId
from skerry.net.safe_fetch import MAX_BYTES, Fetched, FetchRequest, Outcome, SafeClient
from skerry.policy.network import NetworkRules
from skerry.ports.vault import Vault, VaultEntry, VaultKey

__all__ = (
    "AccountHttp",
    "ChannelHost",
    "Cursor",
    "Fetched",
    "FormFile",
    "MemoryVault",
    "Menu",
    "MenuCommand",
    "Outcome",
    "Recent",
    "Reports",
    "Vault",
    "VaultEntry",
    "VaultKey",
)
K = TypeVar("K")
V = TypeVar("V")
_PORTS: Final = {"http": 80, "https": 443}
_IDLE_LIMIT: Final = 2
"""Idle connections: one for a request that waits, one for what is sent."""


class FormFile(Struct, frozen=True):
    """A file in a form."""

    name: str
    mime: str
    data: bytes


class AccountHttp:
    """HTTP requests of one account to the servers of its platform.

    Servers in `roots` may be local, since the owner configured them. All other hosts are refused,
    also after a redirect. Headers of a request are not sent to another origin.
    """

    def __init__(self, roots: Sequence[str], *, public_hosts: Sequence[str] = ()) -> None:
        """Allows the origins of the URLs `roots`, and the hosts `public_hosts`.

        A name in `public_hosts` may begin with `*.`; the general network policy applies to it.
        """
        parts = [urlsplit(root) for root in roots]
        origins = {(part.hostname or "", part.port or _PORTS[part.scheme]) for part in parts}
        names = (*(host for host, _ in sorted(origins)), *public_hosts)
        self._client = SafeClient(
            NetworkRules(allowed_hosts=frozenset(origins), only_hosts=names), idle_limit=_IDLE_LIMIT
        )
        self.connect: Final = self._client.connect
        """Opens a raw connection for `sdk.channel_socket`, under the same policy."""

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        max_bytes: int = MAX_BYTES,
        seconds: float = 12.0,
    ) -> Fetched:
        """Returns the response, or the rule that refused or ended the request. Does not raise.

        Args:
            url: Address of a server of the platform.
            method: HTTP method.
            headers: Headers of the request.
            body: Body of the request.
            max_bytes: Limit of the decoded response; beyond it the body is cut and `truncated`
                is True.
            seconds: Time limit of the whole request.

        """
        request = FetchRequest(url, method, headers or {}, body, max_bytes, seconds)
        return await self._client.fetch(request)

    async def post_json(
        self,
        url: str,
        payload: object,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float = 12.0,
    ) -> Fetched:
        """Posts a value as JSON; returns the response as `fetch` does."""
        typed = {**(headers or {}), "content-type": "application/json"}
        body = msgspec.json.encode(payload)
        return await self.fetch(url, method="POST", headers=typed, body=body, seconds=seconds)

    async def post_form(
        self,
        url: str,
        fields: Mapping[str, str | FormFile],
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float = 14.0,
    ) -> Fetched:
        """Posts a form as `multipart/form-data`; returns the response as `fetch` does."""
        boundary = secrets.token_hex(16)
        body = b"".join(_field(boundary, name, field) for name, field in fields.items())
        body += f"--{boundary}--\r\n".encode()
        kind = {"content-type": f"multipart/form-data; boundary={boundary}"}
        typed = {**(headers or {}), **kind}
        return await self.fetch(url, method="POST", headers=typed, body=body, seconds=seconds)

    async def close(self) -> None:
        """Closes the idle connections."""
        await self._client.__aexit__(None, None, None)


def _field(boundary: str, name: str, field: str | FormFile) -> bytes:
    head = f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"'
    if isinstance(field, str):
        return f"{head}\r\n\r\n{field}\r\n".encode()
    file = (
        "".join(char for char in field.name if char.isprintable() and char not in '"\\') or "file"
    )
    head += f'; filename="{file}"\r\ncontent-type: {field.mime or "application/octet-stream"}'
    return f"{head}\r\n\r\n".encode() + field.data + b"\r\n"


class Cursor(Protocol):
    """Named values of an account that persist over restarts, such as the position of its events."""

    async def read(self, name: str) -> str:
        """Returns a value; empty for a missing one."""
        ...

    async def write(self, name: str, value: str) -> None:
        """Stores a value; returns after the COMMIT."""
        ...


class MemoryCursor:
    """Implements `Cursor` in main memory, for tests."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    async def read(self, name: str) -> str:
        """Returns a value; empty for a missing one."""
        return self._values.get(name, "")

    async def write(self, name: str, value: str) -> None:
        """Sets a value."""
        self._values[name] = value


class MemoryVault:
    """Implements `Vault` in main memory, for tests."""

    def __init__(self) -> None:
        self._key = b""
        self._values_by_name: dict[tuple[str, str], bytes] = {}

    async def open(self) -> VaultKey:
        """Returns the key; creates it at the first call."""
        is_new = not self._key
        self._key = self._key or secrets.token_bytes(32)
        return VaultKey(self._key, is_new=is_new)

    async def renew(self) -> VaultKey:
        """Deletes all values and returns the key, which is kept."""
        self._values_by_name.clear()
        return await self.open()

    async def read(self, kind: str, name: str) -> bytes:
        """Returns a value; empty where there is none."""
        return self._values_by_name.get((kind, name), b"")

    async def every(self, kind: str) -> Sequence[tuple[str, bytes]]:
        """Returns the names and values of a kind, oldest first."""
        return [(name, value) for (of, name), value in self._values_by_name.items() if of == kind]

    async def write(
        self, changes: Sequence[VaultEntry], limits: Mapping[str, int] | None = None
    ) -> None:
        """Writes the values."""
        for change in changes:
            if change.value:
                self._values_by_name[change.kind, change.name] = change.value
            else:
                self._values_by_name.pop((change.kind, change.name), None)
        for kind, count in (limits or {}).items():
            for name, _ in (await self.every(kind))[:-count]:
                del self._values_by_name[kind, name]


class Reports(Protocol):
    """Receives later reports of a platform about parts that it had accepted."""

    async def refused(self, nonce: str, reason: str) -> bool:
        """Records that the part `nonce` was not delivered after all.

        Returns False while the part is still being sent: the platform must report it again.
        """
        ...


class NoReports:
    """Implements `Reports` without an effect, for tests."""

    async def refused(self, nonce: str, reason: str) -> bool:
        """Does nothing."""
        del nonce, reason
        return True


class MenuCommand(Struct, frozen=True):
    """A command that a platform may show in a menu."""

    name: str
    description: str
    accepts_arguments: bool = False


class Menu(Struct, frozen=True):
    """Chat commands for the menus of one platform."""

    public: tuple[MenuCommand, ...] = ()
    """Commands that every person may use."""
    owner: tuple[MenuCommand, ...] = ()
    """Commands that the owner may use, `public` included."""
    owners: tuple[str, ...] = ()
    """Ids of the owner on the platform."""
    is_native: bool = True
    """False when the configuration disables menus."""

    @property
    def visible(self) -> tuple[MenuCommand, ...]:
        """Returns the commands of the owner; empty when the configuration disables menus."""
        return self.owner if self.is_native else ()

    @property
    def names(self) -> frozenset[str]:
        """Returns the names of all commands."""
        return frozenset(command.name for command in (*self.public, *self.owner))


class ChannelHost(Struct, frozen=True):
    """Parts of the gateway for one account. The defaults are for tests."""

    account: AccountId
    clock: Clock
    cursor: Cursor = field(default_factory=MemoryCursor)
    reports: Reports = field(default_factory=NoReports)
    menu: Callable[[], Menu] = Menu
    """Returns the present commands; they change with plugins and settings."""
    vault: Vault = field(default_factory=MemoryVault)


class Recent(dict[K, V]):
    """Dictionary that keeps the `size` entries that were set last."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def __setitem__(self, name: K, value: V) -> None:
        """Sets a value; deletes the oldest entry beyond `size`."""
        self.pop(name, None)
        super().__setitem__(name, value)
        if len(self) > self._size:
            del self[next(iter(self))]
