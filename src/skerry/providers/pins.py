"""The local model servers that the owner has confirmed, each with the user who runs it.

A server without a key is identified by its port only, and any program of the machine can listen
there. So a detected server gets no conversation before the owner has confirmed it, and none after
another user listens there. The file is not part of the database: restoring a backup confirms
nothing.
"""

import logging
import pwd
from enum import Enum, auto
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from skerry.infra.atomic import exclusive, make_private, write_atomic
from skerry.infra.listening import listeners
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.errors import ModelConnectionError, ModelUnavailableError, StateError
from skerry.ports.model import ModelOffer, ModelProvider, ModelReply, ModelRequest, ReplyListener
from skerry.providers.builtin_providers import LocalServer

logger = logging.getLogger(__name__)

FILE: Final = "model-servers.json"
"""File in the state directory."""
_LIMIT: Final = 64 * 1024


class PinState(Enum):
    """Result of the check of the process that listens at a server's port."""

    CONFIRMED = auto()
    UNCONFIRMED = auto()
    CHANGED = auto()
    """The owner has confirmed a process of another user."""
    ABSENT = auto()
    """Confirmed, but no process listens."""


class Pin(Struct, frozen=True, forbid_unknown_fields=True):
    """A server that the owner has confirmed."""

    name: str
    port: int
    users: tuple[int, ...] | None
    """User ids of the listening sockets; None where the system does not list them."""


class Pins(Struct, frozen=True):
    """The confirmed servers of a state directory; each call reads the file."""

    state_dir: Path

    def verdict(self, server: LocalServer) -> PinState:
        """Checks the process that listens at the server's port now."""
        pin = self._load().get(server.id)
        if pin is None or (pin.name, pin.port) != (server.name, _port(server)):
            return PinState.UNCONFIRMED
        users = _users(server)
        if users == ():
            return PinState.ABSENT
        return PinState.CONFIRMED if users == pin.users else PinState.CHANGED

    def check(self, server: LocalServer) -> None:
        """Checks that a conversation may be sent to the server.

        Raises:
            ModelUnavailableError: the owner has not confirmed the process that listens.
            ModelConnectionError: no process listens.
        """
        verdict = self.verdict(server)
        if verdict is PinState.ABSENT:
            raise ModelConnectionError(f"{server.name} does not listen on {_address(server)}.")
        if verdict is not PinState.CONFIRMED:
            offer = self.offer(server)
            raise ModelUnavailableError(offer.text, offer.remedy)

    def offer(self, server: LocalServer) -> ModelOffer:
        """Returns the offer of an unconfirmed server to the owner."""
        pin = self._load().get(server.id)
        before = _called(pin.users) if pin and self.verdict(server) is PinState.CHANGED else ""
        return ModelOffer(server.id, server.name, _address(server), _called(_users(server)), before)

    def confirm(self, server: LocalServer) -> ModelOffer:
        """Stores the confirmation of the server and of the user that runs it now; returns both.

        Raises:
            ModelConnectionError: no process listens.
            StateError: the file cannot be written.
        """
        users = _users(server)
        if users == ():
            error = ModelConnectionError(f"{server.name} does not listen on {_address(server)}.")
            error.remedy = f"Start {server.name}, then confirm it."
            raise error
        pin = Pin(server.name, _port(server), users)
        self._change(server.id, pin)
        logger.info("%s on %s was confirmed (%s)", server.name, _address(server), _called(users))
        return ModelOffer(server.id, server.name, _address(server), _called(users))

    def withdraw(self, server: LocalServer) -> None:
        """Deletes the confirmation of the server.

        Raises:
            StateError: the file cannot be written.
        """
        self._change(server.id, None)

    def _change(self, name: str, pin: Pin | None) -> None:
        try:
            make_private(self.state_dir)
            with exclusive(self.state_dir):
                pins = {
                    key: fingerprint for key, fingerprint in self._load().items() if key != name
                }
                if pin is not None:
                    pins[name] = pin
                data = msgspec.json.format(msgspec.json.encode(pins))
                write_atomic(self.state_dir / FILE, data + b"\n")
        except OSError as error:
            message = f"{self.state_dir / FILE} cannot be written: {error.strerror}."
            raise StateError(message) from error

    def _load(self) -> dict[str, Pin]:
        """Returns the pins by server id; empty when the file cannot be read."""
        path = self.state_dir / FILE
        try:
            with path.open("rb") as file:
                data = file.read(_LIMIT)
            return msgspec.json.decode(data, type=dict[str, Pin])
        except FileNotFoundError:
            return {}
        except (OSError, *UNREADABLE) as error:
            logger.warning("%s cannot be read, no server is confirmed: %s", path, error)
            return {}


class PinnedProvider:
    """Calls a local server only while the process that listens there is confirmed."""

    def __init__(self, inner: ModelProvider, pins: Pins, server: LocalServer) -> None:
        self._inner = inner
        self._pins = pins
        self._server = server

    @property
    def api(self) -> str:
        """Returns the wire format of the inner provider."""
        return self._inner.api

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`."""
        self._pins.check(self._server)
        return await self._inner.complete(request, listener)


def _port(server: LocalServer) -> int:
    return urlsplit(server.base_url).port or 80


def _address(server: LocalServer) -> str:
    return urlsplit(server.base_url).netloc


def _users(server: LocalServer) -> tuple[int, ...] | None:
    processes = listeners(_port(server))
    return None if processes is None else tuple(sorted(processes))


def _called(users: tuple[int, ...] | None) -> str:
    """Returns the names of the users for messages; empty where they are unknown."""
    return " and ".join(_name(user) for user in users or ())


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
