"""Devices in the state database, and the migration that adds them."""

import sqlite3
from pathlib import Path

from skerry.infra import sqlite
from skerry.store import Reader, Unit, devices, open_store
from skerry.store.devices import DeviceInfo, DeviceRequest
from skerry.store.state_schema import STEPS

ABOUT = DeviceInfo("cli", "cli", "linux", "192.0.2.7", "Den")


def device_request(**changes: str | tuple[str, ...] | int) -> DeviceRequest:
    values = {
        "request_id": "r1",
        "device_id": "d1",
        "role": "operator",
        "public_key": "key",
        "scopes": ("operator.read",),
        "about": ABOUT,
        "reason": "not-paired",
        "created_at": 1_000,
    }
    return DeviceRequest(**(values | changes))  # type: ignore[arg-type]  # the values fit their fields


async def test_a_database_of_the_first_version_keeps_its_rows_and_takes_devices(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.sqlite"
    old = sqlite.connect(path)
    sqlite.migrate(old, path, STEPS[:1])
    old.execute(
        "INSERT INTO session (session_id, key, agent_id, chat_type, created_at, updated_at)"
        " VALUES ('s', 'agent:main:main', 'main', 'direct', 1, 2)"
    )
    old.close()

    def write(unit: Unit) -> None:
        devices.issue(unit, devices.allow(unit, device_request(), 2_000), "secret", 2_000)

    def read(reader: Reader) -> tuple[object, ...]:
        row = reader.one("SELECT key, updated_at FROM session")
        return row, *(devices.has_token(reader, "d1", "operator", text) for text in ("secret", "x"))

    async with open_store(path) as store:
        await store.write(write)
        assert await store.read(read) == (("agent:main:main", 2), True, False)
    backup = sqlite3.connect(tmp_path / "state.sqlite.v1.bak")
    assert backup.execute("SELECT count(*) FROM session").fetchone() == (1,)
    backup.close()


async def test_a_request_that_changed_has_a_new_id_and_the_same_one_keeps_its_own(
    tmp_path: Path,
) -> None:
    wider = device_request(request_id="r3", scopes=("operator.admin",))

    def write(unit: Unit) -> list[tuple[str, bool]]:
        answers = [
            devices.add_request(unit, answer)
            for answer in (device_request(), device_request(request_id="r2"), wider)
        ]
        return [(answer.request_id, fresh) for answer, fresh in answers]

    async with open_store(tmp_path / "state.sqlite") as store:
        assert await store.write(write) == [("r1", True), ("r1", False), ("r3", True)]
        assert await store.read(lambda reader: devices.request(reader, "r1", 1_000)) is None
        assert await store.read(lambda reader: devices.requests(reader, 1_000)) == [wider]


async def test_what_is_granted_adds_up_until_it_is_revoked(tmp_path: Path) -> None:
    def write(unit: Unit) -> list[tuple[str, ...]]:
        grants = [
            devices.allow(unit, device_request(), 1),
            devices.allow(unit, device_request(scopes=("b",)), 2),
        ]
        devices.revoke(unit, grants[1], 3)
        return [
            grant.scopes
            for grant in (*grants, devices.allow(unit, device_request(scopes=("c",)), 4))
        ]

    async with open_store(tmp_path / "state.sqlite") as store:
        assert await store.write(write) == [
            ("operator.read",),
            ("operator.read", "b"),
            ("c",),
        ]
