"""The password and the tokens of devices stay where they are."""

import json
from pathlib import Path

import msgspec
import pytest

from skerry.infra.atomic import write_atomic
from skerry.testing.gateway import GatewayProcess
from tests.support.device import Device

PASSWORD = "canary-password-0123456789abcdef"  # noqa: S105 - a stand-in to look for
WRONG = "canary-guess-0123456789abcdef"


async def test_a_password_and_a_devices_token_are_stored_nowhere(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    auth = {"mode": "password", "password": PASSWORD}
    write_atomic(home / "skerry.json", msgspec.json.encode({"gateway": {"auth": auth}}))
    gateway = GatewayProcess(home)
    device = Device()
    frames = []
    try:
        await gateway.start()
        url = gateway.url.replace("http", "ws", 1)
        shown = {"password": PASSWORD}
        await device.refused(url, auth={"password": WRONG})
        async with device.connected(url, scopes=["operator.admin"], auth=shown) as wire:
            first = device.token
            for method in ("config.get", "device.pair.list", "status", "logs.tail"):
                await wire.call(method)
            rotated = {"deviceId": device.id, "role": "operator"}
            payload = await wire.call("device.token.rotate", rotated)
        # Both tokens came to the one who may have them; nothing else that was sent has one.
        frames = [frame for frame in wire.frames if frame.get("id") not in {"connect", "a5"}]
        frames.append({"rotated": {**payload, "token": ""}})
        await gateway.stop()
    finally:
        await gateway.end()
    secrets = {"password": PASSWORD, "guess": WRONG, "first": first, "second": payload["token"]}
    assert all(len(secret) > 20 for secret in secrets.values())
    places = {
        str(path.relative_to(home)): path.read_bytes().decode(errors="replace")
        for path in home.rglob("*")
        if path.is_file() and path.name not in {"skerry.json", "skerry.json.last-good"}
    }
    places |= {
        "frames": json.dumps(frames),
        "output": "\n".join(line for line in gateway.output if "#token=" not in line),
        "errors": capfd.readouterr().err,
    }
    leaks = [
        (name, where)
        for name, secret in secrets.items()
        for where, text in places.items()
        if secret in text
    ]
    assert leaks == []
