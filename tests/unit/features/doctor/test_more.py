"""What `doctor` says of plugins, devices, the service, the log and exposure."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from skerry.config.load import load
from skerry.features.doctor import gateway_checks, safety
from skerry.features.doctor.examine import examine
from skerry.features.doctor.state import database
from skerry.features.service import systemd_unit
from skerry.infra.log import KEEP_FILES, MAX_BYTES
from skerry.ports.checks import Check, Level
from skerry.store import DATABASE, open_store
from tests.support.fake_gateway import TOKEN, fake_gateway


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    return {
        "SKERRY_STATE_DIR": str(state),
        "SKERRY_GATEWAY_PORT": "1",
        "XDG_CONFIG_HOME": str(tmp_path / "units"),
        "OPENAI_API_KEY": "sk-canary",
    }


def write(environ: Mapping[str, str], config: Mapping[str, Any]) -> Path:
    path = Path(environ["SKERRY_STATE_DIR"]) / "skerry.json"
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.encode(config))
    return path


async def checks_named(environ: Mapping[str, str], name: str) -> list[Check]:
    return [check for check in await examine(environ) if check.name == name]


async def test_a_running_gateway_names_failed_plugins_and_suspended_functions(
    environ: dict[str, str],
) -> None:
    base = {"path": "p", "reason": "", "remedy": "", "failures": []}
    rests = {"hook": "agent_end", "failures": 3, "last_error": "KeyError: x", "resting": True}
    plugins = [
        {**base, "id": "good", "status": "loaded"},
        {**base, "id": "bad", "status": "failed", "reason": "It raised."},
        {**base, "id": "slow", "status": "loaded", "failures": [rests]},
    ]
    async with fake_gateway() as gateway:
        gateway.answer("plugins.list", {"plugins": plugins})
        gateway.answer("plugins.check", {"checks": []})
        gateway.answer("status", {"devices": {"pending": 1}, "undelivered": {"unknown": 2}})
        environ |= {
            "SKERRY_GATEWAY_PORT": gateway.url.rpartition(":")[2],
            "SKERRY_GATEWAY_TOKEN": TOKEN,
        }
        checks = {check.name: check for check in await examine(environ)}
    assert checks["plugin good"] == Check("plugin good", Level.OK, "loaded")
    bad, slow = checks["plugin bad"], checks["plugin slow"]
    assert (bad.level, bad.message) == (Level.FAILURE, "It raised.")
    assert "plugins.entries.bad.enabled" in bad.remedy
    assert slow.level is Level.WARNING
    assert slow.message == "agent_end failed 3 times; it is paused for a minute: KeyError: x"
    assert checks["devices"].remedy == "skerry devices list"
    assert checks["delivery"].message == "parts of replies are not delivered: 2 unknown."


async def test_a_gateway_that_has_what_is_missing_here_is_asked_all_the_same(
    environ: dict[str, str],
) -> None:
    own = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "${ONLY_THERE}"}
    write(environ, {"models": {"providers": {"own": own}}})
    async with fake_gateway() as gateway:
        gateway.answer("plugins.list", {"plugins": []})
        gateway.answer("status", {"devices": {"pending": 1}})
        environ |= {
            "SKERRY_GATEWAY_PORT": gateway.url.rpartition(":")[2],
            "SKERRY_GATEWAY_TOKEN": TOKEN,
        }
        checks = {check.name: check for check in await examine(environ)}
    assert "ONLY_THERE" in checks["configuration"].message
    assert checks["configuration"].level is Level.FAILURE
    assert (checks["gateway"].level, checks["devices"].level) == (Level.OK, Level.WARNING)


async def test_without_a_gateway_plugin_files_are_checked_and_not_run(
    environ: dict[str, str], tmp_path: Path
) -> None:
    trace = tmp_path / "ran"
    sources = {
        "fine": f"open({str(trace)!r}, 'w')\ndef register(api): pass\n",
        "wrong": "def register(:\n",
        "open": "",
    }
    state = Path(environ["SKERRY_STATE_DIR"])
    for name, text in sources.items():
        (state / f"{name}.py").write_text(text)
        (state / f"{name}.py").chmod(0o666 if name == "open" else 0o600)
    write(environ, {"plugins": {"load": {"paths": [f"{name}.py" for name in sources]}}})
    checks = list(gateway_checks.plugin_files(load(environ).config))
    assert [check.level for check in checks] == [Level.OK, Level.FAILURE, Level.FAILURE]
    assert "is not Python" in checks[1].message
    assert checks[2].remedy.startswith("Run: chmod go-w")
    assert not trace.exists()


def test_a_gateway_that_others_reach_without_tls_is_a_warning(environ: dict[str, str]) -> None:
    token = "0123456789abcdef" * 2
    gateway: dict[str, Any] = {"bind": "lan", "auth": {"token": token}}
    write(environ, {"gateway": gateway})
    (check,) = safety.exposure(load(environ).config.gateway)
    assert (check.level, "TLS" in check.remedy) == (Level.WARNING, True)
    write(environ, {"gateway": gateway | {"trustedProxies": ["127.0.0.1"]}})
    (check,) = safety.exposure(load(environ).config.gateway)
    assert check.level is Level.OK


@pytest.mark.parametrize(("bind", "level"), [("loopback", "warning"), ("lan", "failure")])
def test_a_long_secret_of_few_characters_is_named_but_not_shown(
    environ: dict[str, str], bind: str, level: str
) -> None:
    secret = "abab" * 10
    write(environ, {"gateway": {"bind": bind, "auth": {"token": secret}}})
    (check,) = safety.secret(load(environ).config.gateway)
    assert check.level == level
    assert secret not in str(check)


async def test_a_unit_of_another_installation_is_stale(environ: dict[str, str]) -> None:
    assert (await checks_named(environ, "service"))[0].level is Level.OK
    file = systemd_unit.path(environ)
    file.parent.mkdir(parents=True)
    file.write_text(systemd_unit.current(load(environ).config))
    assert (await checks_named(environ, "service"))[0] == Check("service", Level.OK, str(file))
    file.write_text("[Unit]\n")
    (check,) = await checks_named(environ, "service")
    assert (check.level, check.remedy) == (Level.WARNING, "skerry service install")


def test_a_log_that_grew_too_large_is_a_warning(tmp_path: Path) -> None:
    assert safety.log(tmp_path).level is Level.OK
    (tmp_path / "logs").mkdir()
    large = tmp_path / "logs" / "skerry-2026-01-01.log"
    large.touch()
    os.truncate(large, (KEEP_FILES + 1) * MAX_BYTES + 1)
    assert safety.log(tmp_path).level is Level.WARNING


async def test_the_size_of_a_database_includes_its_write_ahead_log(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE):
        log = (tmp_path / f"{DATABASE}-wal").stat().st_size // 1024
        check = database(tmp_path)
    assert log > 100
    size = re.search(r"\((\d+) KiB\)", check.message)
    assert size is not None
    assert int(size[1]) > log


def test_a_database_that_cannot_be_opened_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / DATABASE).mkdir()
    check = database(tmp_path)
    assert (check.level, "backup restore" in check.remedy) == (Level.FAILURE, False)
