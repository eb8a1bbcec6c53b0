"""Devices of other users: requests them, checks signatures, trusts the first received keys."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace
from vodozemac import Curve25519PublicKey

from skerry.channels.matrix.api import CLIENT, MatrixApi
from skerry.channels.matrix.encryption.crypto_store import (
    MAX_RECORDS,
    PEOPLE,
    CryptoStore,
    PeerDevice,
    Person,
)
from skerry.channels.matrix.encryption.own_keys import MEGOLM_V1
from skerry.channels.matrix.encryption.signing import is_signed

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 50
"""Number of users in one request."""
_MAX_DEVICES: Final = 200
"""Limit on the stored devices of a user, with removed ones."""
_MAX_ID: Final = 255


class _Keys(Struct, frozen=True):
    user_id: str
    device_id: str
    keys: dict[str, str]
    algorithms: tuple[str, ...] = ()


class _Answer(Struct, frozen=True):
    device_keys: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    failures: dict[str, Any] = field(default_factory=dict)


class DeviceLists:
    """The devices of those in rooms with the account.

    The list of a user is asked for when it is first needed in this process, and again after the
    homeserver said that it changed.
    """

    def __init__(self, store: CryptoStore, api: MatrixApi) -> None:
        self._store = store
        self._api = api
        self._current: set[str] = set()
        self._people: dict[str, Person] = {}
        """Cache of the records; a room may have a thousand members."""

    def outdate(self, users: Iterable[str]) -> None:
        """Requests the devices of these users again at their next use."""
        self._current.difference_update(users)

    async def get(self, users: Iterable[str]) -> dict[str, Person]:
        """Returns the devices of users in the present list of the homeserver.

        Raises:
            PlatformError: it cannot be asked.
        """
        users = list(users)
        outdated = [user for user in users if user not in self._current]
        for start in range(0, len(outdated), _AT_ONCE):
            await self._ask(outdated[start : start + _AT_ONCE])
        return {user: await self.devices_of(user) for user in users}

    async def devices_of(self, user: str) -> Person:
        """Returns the stored devices of a user."""
        person = self._people.get(user)
        if person is None:
            person = await self._store.read(PEOPLE, user, Person) or Person()
            self._keep(user, person)
        return person

    def _keep(self, user: str, person: Person) -> None:
        if len(self._people) >= MAX_RECORDS[PEOPLE]:
            self._people.pop(next(iter(self._people)))
        self._people[user] = person

    async def _ask(self, users: list[str]) -> None:
        self._current.update(users)  # a change that is told from here on counts
        try:
            body = {"device_keys": {user: [] for user in users}, "timeout": 8000}
            answer = await self._api.post(f"{CLIENT}/keys/query", body)
            answered = msgspec.json.decode(answer, type=_Answer)
        except BaseException:
            self._current.difference_update(users)
            raise
        changed: list[tuple[str, str, Person]] = []
        for user in users:
            if user.partition(":")[2] in answered.failures:
                self._current.discard(user)  # its server is away: what is known is used
                continue
            before = await self.devices_of(user)
            after = _merged(user, before, answered.device_keys.get(user, {}))
            if after != before:
                changed.append((PEOPLE, user, after))
        await self._store.write(changed)
        for _, user, person in changed:
            self._keep(user, person)


def _merged(user: str, before: Person, listed: Mapping[str, Mapping[str, Any]]) -> Person:
    devices = {name: replace(peer, gone=True) for name, peer in before.devices.items()}
    for name, content in listed.items():
        peer = _checked(user, name, content)
        if peer is None:
            continue
        first = devices.get(name)
        if first is not None and (first.curve, first.ed) != (peer.curve, peer.ed):
            logger.warning(
                "matrix: the device %s of %s has other keys than before; it is not trusted. Ask"
                " the person: a device that was set up anew has a new id.",
                name,
                user,
            )
            continue
        devices[name] = peer
    return Person(_fewer(devices))


def _fewer(devices: dict[str, PeerDevice]) -> dict[str, PeerDevice]:
    """Returns the devices; beyond the limit, without those that were removed first."""
    unlisted = [name for name, peer in devices.items() if peer.gone]
    spare = max(len(devices) - _MAX_DEVICES, 0)
    dropped = {*unlisted[:spare]}
    remaining = [(name, peer) for name, peer in devices.items() if name not in dropped]
    return dict(remaining[:_MAX_DEVICES])


def _checked(user: str, name: str, content: Mapping[str, Any]) -> PeerDevice | None:
    """Returns a device with valid signatures of its own keys; None for another."""
    try:
        keys = msgspec.convert(content, _Keys)
        curve, ed = keys.keys[f"curve25519:{name}"], keys.keys[f"ed25519:{name}"]
        Curve25519PublicKey.from_base64(curve)
    except (msgspec.ValidationError, KeyError, ValueError):
        return None
    is_own = (keys.user_id, keys.device_id) == (user, name) and len(name) <= _MAX_ID
    can = MEGOLM_V1 in keys.algorithms
    if not is_own or not can or not is_signed(content, user, name, ed):
        logger.warning("matrix: the device %s of %s has no valid keys", name, user)
        return None
    return PeerDevice(curve, ed)
