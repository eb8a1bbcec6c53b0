"""The checks of an installation, each with a home of its own."""

import socket
from pathlib import Path

import pytest

from skerry.app.doctor import Check, Level, examine
from skerry.config.load import prepare
from tests.support.fake_gateway import TOKEN, fake_gateway


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A fresh home, no gateway, and a key, so that nothing depends on the machine."""
    return {
        "SKERRY_STATE_DIR": str(tmp_path / "state"),
        "SKERRY_GATEWAY_PORT": str(free_port()),
        "OPENAI_API_KEY": "sk-canary",
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def found(environ: dict[str, str], name: str) -> list[Check]:
    return [check for check in await examine(environ) if check.name == name]


async def test_a_fresh_home_has_no_failure_and_is_left_as_it_was(
    environ: dict[str, str], tmp_path: Path
) -> None:
    checks = await examine(environ)
    assert [check for check in checks if check.level is Level.FAILURE] == []
    assert {check.name for check in checks} >= {"python", "token", "gateway", "model", "database"}
    assert list(tmp_path.iterdir()) == []


async def test_no_secret_stands_in_a_report(environ: dict[str, str]) -> None:
    loaded = prepare(environ)
    token = loaded.config.gateway.auth.token
    assert token is not None
    report = str(await examine(environ))
    assert token.get_secret_value() not in report
    assert "canary" not in report


async def test_a_running_gateway_is_found_and_asked_for_its_model(environ: dict[str, str]) -> None:
    async with fake_gateway() as gateway:
        port = gateway.url.rpartition(":")[2]
        environ |= {"SKERRY_GATEWAY_PORT": port, "SKERRY_GATEWAY_TOKEN": TOKEN}
        assert (await found(environ, "gateway"))[0].message == f"running at {gateway.url}"
        assert (await found(environ, "model"))[0].message == "scripted/tiny"


async def test_a_gateway_with_another_token_is_a_failure_with_what_to_do(
    environ: dict[str, str],
) -> None:
    async with fake_gateway() as gateway:
        environ["SKERRY_GATEWAY_PORT"] = gateway.url.rpartition(":")[2]
        (check,) = await found(environ, "gateway")
    assert (check.level, "unauthorized" in check.message) == (Level.FAILURE, True)
    assert "SKERRY_GATEWAY_TOKEN" in check.remedy


async def test_a_port_that_another_program_has_is_a_failure(environ: dict[str, str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", int(environ["SKERRY_GATEWAY_PORT"])))
        (check,) = await found(environ, "gateway")
    assert (check.level, "cannot be used" in check.message) == (Level.FAILURE, True)


async def test_every_error_of_the_configuration_is_a_failure(environ: dict[str, str]) -> None:
    file = prepare(environ).config.path
    file.write_text('{"tools": {}, "gateway": {"prot": 1}}')
    checks = await found(environ, "configuration")
    assert [check.level for check in checks] == [Level.FAILURE] * 2
    assert all(check.remedy for check in checks)


async def test_what_others_can_read_is_a_warning(environ: dict[str, str]) -> None:
    file = prepare(environ).config.path
    file.chmod(0o644)
    file.parent.chmod(0o755)
    assert Level.WARNING in {check.level for check in await found(environ, "configuration")}
    (check,) = await found(environ, "state directory")
    assert (check.level, check.remedy) == (Level.WARNING, f"Run: chmod 700 {file.parent}")


async def test_a_database_that_is_none_is_a_failure(environ: dict[str, str]) -> None:
    directory = prepare(environ).config.state_dir
    (directory / "state.sqlite").write_bytes(b"no database" * 1000)
    (check,) = await found(environ, "database")
    assert (check.level, bool(check.remedy)) == (Level.FAILURE, True)


async def test_a_model_that_cannot_be_used_is_a_failure(environ: dict[str, str]) -> None:
    file = prepare(environ).config.path
    file.write_text('{"agents": {"defaults": {"model": "nobody/x"}}}')
    (check,) = await found(environ, "model")
    assert (check.level, bool(check.remedy)) == (Level.FAILURE, True)


async def test_an_open_gateway_is_a_warning(environ: dict[str, str]) -> None:
    file = prepare(environ).config.path
    file.write_text('{"gateway": {"auth": {"mode": "none"}}}')
    assert (await found(environ, "token"))[0].level is Level.WARNING
