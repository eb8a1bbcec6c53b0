"""The local model servers that the owner has confirmed, each with the user who runs it.

A server without a key is believed for its port alone, and any program of the machine can listen
there first. So one that was found gets no conversation before the owner has named it once, and none
when another user listens there afterwards. The file stands outside of the database: a backup that
is restored confirms nothing.
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
    """Judgement about the process that listens at a server's port."""

    CONFIRMED = auto()
    UNCONFIRMED = auto()
    CHANGED = auto()
    """The owner has confirmed another user's."""
    ABSENT = auto()
    """Confirmed, and nobody listens."""


class Pin(Struct, frozen=True, forbid_unknown_fields=True):
    """Server that the owner has confirmed."""

    name: str
    port: int
    users: tuple[int, ...] | None
    """User ids of the listening sockets; None where the system did not tell."""


class Pins(Struct, frozen=True):
    """The confirmed servers of a state directory; read anew for each question."""

    state_dir: Path

    def verdict(self, server: LocalServer) -> PinState:
        """Judges the process that listens at the server's port now."""
        pin = self._load().get(server.id)
        if pin is None or (pin.name, pin.port) != (server.name, _port(server)):
            return PinState.UNCONFIRMED
        users = _users(server)
        if users == ():
            return PinState.ABSENT
        return PinState.CONFIRMED if users == pin.users else PinState.CHANGED

    def check(self, server: LocalServer) -> None:
        """Returns when a conversation may be sent to the server.

        Raises:
            ModelUnavailableError: the owner has not confirmed who listens there.
            ModelConnectionError: nobody listens.
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
        """Keeps that the owner uses the server as it runs now; returns what was confirmed.

        Raises:
            ModelConnectionError: nobody listens there.
            StateError: it cannot be kept.
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
        """Forgets that the server was confirmed.

        Raises:
            StateError: it cannot be kept.
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
        """Returns the pins; none where the file cannot be read: then nothing is confirmed."""
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
    """Asks a local server only while whoever listens there is confirmed."""

    def __init__(self, inner: ModelProvider, pins: Pins, server: LocalServer) -> None:
        self._inner = inner
        self._pins = pins
        self._server = server

    @property
    def api(self) -> str:
        """Returns the wire format of the model behind."""
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
    """Returns the names of the users for people; empty where the system does not tell."""
    return " and ".join(_name(user) for user in users or ())


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
