"""`skerry devices` as a process, against a gateway with real devices."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.cli import skerry
from tests.support.device import REMOTE, Device
from tests.support.gateway import Rig, running_gateway

READ = ["operator.read"]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running_gateway(tmp_path) as rig:
        yield rig


async def devices(rig: Rig, *arguments: str) -> CompletedProcess[bytes]:
    return await skerry(rig, "devices", *arguments)


async def test_a_device_waits_is_approved_rotated_revoked_and_removed(rig: Rig) -> None:
    device = Device()
    about = {"id": "cli", "displayName": "Den\x1b[31m", "version": "1", "platform": "linux"}
    error = await device.refused(rig.url, REMOTE, scopes=READ, client=about | {"mode": "cli"})
    assert error["code"] == "INVALID_REQUEST"  # such a name cannot come this far
    error = await device.refused(rig.url, REMOTE, scopes=READ)
    request = error["details"]["requestId"]
    listed = await devices(rig, "list")
    assert request in listed.stdout.decode()
    assert "203.0.113" not in listed.stdout.decode()  # nobody said that the proxy is to be believed
    assert device.id[:12] in listed.stdout.decode()

    approved = await devices(rig, "approve", request[:8])
    assert approved.stdout.decode() == f"The device {device.id[:12]} was approved.\n"
    async with device.connected(rig.url, REMOTE, scopes=READ):
        pass

    rotated = await devices(rig, "rotate", device.id[:10], "--json")
    token = json.loads(rotated.stdout)["token"]
    async with device.connected(rig.url, REMOTE, scopes=READ, auth={"deviceToken": token}):
        revoked = await devices(rig, "revoke", device.id)
    assert b"until it is approved again" in revoked.stdout
    assert b"revoked" in (await devices(rig, "list")).stdout
    await device.refused(rig.url, REMOTE, scopes=READ, auth={"deviceToken": token})

    removed = await devices(rig, "remove", device.id[:4])
    assert removed.returncode == 0
    empty = await devices(rig, "list", "--json")
    assert json.loads(empty.stdout) == {"pending": [], "paired": []}
    assert b"No device is paired" in (await devices(rig, "list")).stdout


async def test_the_newest_request_can_be_rejected_without_its_id(rig: Rig) -> None:
    device = Device()
    await device.refused(rig.url, REMOTE, scopes=READ)
    completed = await devices(rig, "reject", "--latest")
    assert completed.stdout.decode() == f"The device {device.id[:12]} was rejected.\n"


async def test_an_id_that_fits_nothing_says_where_the_right_ones_are(rig: Rig) -> None:
    for arguments, message in (
        (("approve", "nothing"), b"Unknown request 'nothing'."),
        (("approve",), b"Unknown request ''."),
        (("approve", "--latest"), b"No device has requested a pairing."),
        (("remove", "ff"), b"Unknown device 'ff'."),
    ):
        completed = await devices(rig, *arguments)
        assert completed.returncode == 1
        assert message in completed.stderr
        assert b"skerry devices list" in completed.stderr
