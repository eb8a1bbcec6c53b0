"""The checks of an installation, each with a home of its own."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from skerry.config.backup import keep_good
from skerry.config.load import load, prepare
from skerry.config.write import ConfigAuthor, set_values
from skerry.features.doctor.examine import examine
from skerry.ports.checks import Check, Level
from skerry.testing.ports import reserved
from tests.support.fake_gateway import TOKEN, fake_gateway


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A fresh home, no gateway, and a key, so that nothing depends on the machine."""
    with reserved() as port:
        yield {
            "SKERRY_STATE_DIR": str(tmp_path / "state"),
            "SKERRY_GATEWAY_PORT": str(port),
            "OPENAI_API_KEY": "sk-canary",
        }


async def checks_named(environ: dict[str, str], name: str) -> list[Check]:
    return [check for check in await examine(environ) if check.name == name]


async def test_a_fresh_home_has_no_failure_and_is_left_as_it_was(
    environ: dict[str, str], tmp_path: Path
) -> None:
    checks = await examine(environ)
    assert [check for check in checks if check.level is Level.FAILURE] == []
    assert {check.name for check in checks} >= {"python", "token", "gateway", "model", "database"}
    assert list(tmp_path.iterdir()) == []


async def test_no_secret_is_in_a_report(environ: dict[str, str]) -> None:
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
        assert (await checks_named(environ, "gateway"))[0].message == f"running at {gateway.url}"
        assert (await checks_named(environ, "model"))[0].message == "scripted/tiny"


async def test_a_gateway_with_another_token_is_a_failure_with_what_to_do(
    environ: dict[str, str],
) -> None:
    async with fake_gateway() as gateway:
        environ["SKERRY_GATEWAY_PORT"] = gateway.url.rpartition(":")[2]
        (check,) = await checks_named(environ, "gateway")
    assert (check.level, "unauthorized" in check.message) == (Level.FAILURE, True)
    assert "SKERRY_GATEWAY_TOKEN" in check.remedy


async def test_a_port_that_another_program_has_is_a_failure(environ: dict[str, str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        environ["SKERRY_GATEWAY_PORT"] = str(other.getsockname()[1])
        (check,) = await checks_named(environ, "gateway")
    assert (check.level, "cannot be used" in check.message) == (Level.FAILURE, True)


async def test_every_error_of_the_configuration_is_a_failure(environ: dict[str, str]) -> None:
    file = prepare(environ).config.path
    file.write_text('{"approvals": {}, "gateway": {"prot": 1}}')
    checks = await checks_named(environ, "configuration")
    assert [check.level for check in checks] == [Level.FAILURE] * 2
    assert all(check.remedy for check in checks)


async def test_what_others_can_read_is_said_once_a_file(environ: dict[str, str]) -> None:
    file = prepare(environ).config.path
    file.chmod(0o644)
    file.parent.chmod(0o755)
    warned = [check for check in await examine(environ) if "others can" in check.message]
    assert [(check.name, check.level) for check in warned] == [("permissions", Level.WARNING)] * 2
    assert [check.remedy.split()[-2:] for check in warned] == [
        ["700", str(file.parent)],
        ["600", str(file)],
    ]


async def test_a_password_that_is_missing_is_a_failure_and_not_a_short_one(
    environ: dict[str, str],
) -> None:
    set_values(prepare(environ).config.path, {"gateway.auth.mode": "password"})
    assert (await checks_named(environ, "token"))[0].level is Level.FAILURE
    (warned,) = [
        warning for warning in load(environ).warnings if warning.path == "gateway.auth.password"
    ]
    assert ("missing" in warned.message, "SKERRY_GATEWAY_PASSWORD" in warned.remedy) == (True, True)


async def test_a_database_that_is_none_is_a_failure(environ: dict[str, str]) -> None:
    directory = prepare(environ).config.state_dir
    (directory / "state.sqlite").write_bytes(b"no database" * 1000)
    (check,) = await checks_named(environ, "database")
    assert (check.level, bool(check.remedy)) == (Level.FAILURE, True)


async def test_a_model_that_cannot_be_used_is_a_failure(environ: dict[str, str]) -> None:
    file = prepare(environ).config.path
    file.write_text('{"agents": {"defaults": {"model": "nobody/x"}}}')
    (check,) = await checks_named(environ, "model")
    assert (check.level, bool(check.remedy)) == (Level.FAILURE, True)


async def test_an_open_gateway_is_a_warning(environ: dict[str, str]) -> None:
    file = prepare(environ).config.path
    file.write_text('{"gateway": {"auth": {"mode": "none"}}}')
    assert (await checks_named(environ, "token"))[0].level is Level.WARNING


async def test_where_the_last_good_file_is_used_it_is_said_with_what_to_do(
    environ: dict[str, str],
) -> None:
    file = prepare(environ).config.path
    loaded = load(environ)
    keep_good(loaded.source, loaded.expanded)
    file.write_text("{broken")
    (check,) = await checks_named(environ, "last good configuration")
    assert (check.level, "cp " in check.remedy) == (Level.WARNING, True)
    assert (await checks_named(environ, "configuration"))[0].level is Level.FAILURE


async def test_a_reference_that_names_nothing_is_a_failure_that_names_it(
    environ: dict[str, str],
) -> None:
    file = prepare(environ).config.path
    file.write_text('{"agents": {"list": [{"id": "a", "name": "${NOBODY}"}]}}')
    (check,) = await checks_named(environ, "configuration")
    assert (check.level, "NOBODY" in check.message) == (Level.FAILURE, True)


async def test_fixing_takes_the_state_from_others_and_does_nothing_else(
    environ: dict[str, str],
) -> None:
    file = prepare(environ).config.path
    set_values(file, {"agents.defaults.timeoutSeconds": 5}, author=ConfigAuthor(environ=environ))
    before = file.read_text()
    backup = file.with_name("skerry.json.bak")
    for one, mode in ((file, 0o644), (backup, 0o664), (file.parent, 0o755)):
        one.chmod(mode)
    assert {check.level for check in await checks_named(environ, "permissions")} == {Level.WARNING}
    await examine(environ, fix=True)
    modes = [path.stat().st_mode & 0o777 for path in (file, backup, file.parent)]
    assert modes == [0o600, 0o600, 0o700]
    assert file.read_text() == before
    assert [check.level for check in await checks_named(environ, "permissions")] == [Level.OK]


async def test_a_link_is_not_followed_when_permissions_are_mended(
    environ: dict[str, str], tmp_path: Path
) -> None:
    directory = prepare(environ).config.state_dir
    other = tmp_path / "other.json"
    other.write_text("{}")
    other.chmod(0o644)
    (directory / "link.json").symlink_to(other)
    await examine(environ, fix=True)
    assert other.stat().st_mode & 0o777 == 0o644


async def test_the_gateway_of_another_directory_is_told_from_ones_own(
    environ: dict[str, str],
) -> None:
    async with fake_gateway() as gateway:
        environ["SKERRY_GATEWAY_PORT"] = gateway.url.rpartition(":")[2]
        (check,) = await checks_named(environ, "gateway")
    assert f"another state directory than {environ['SKERRY_STATE_DIR']}" in check.message
    assert "--port N" in check.remedy


async def test_an_edit_that_was_not_taken_and_a_broken_mirror_are_warnings(
    environ: dict[str, str],
) -> None:
    file = prepare(environ).config.path
    file.with_name("skerry.json.rejected").write_text("{")
    mirror = file.parent / "agents" / "main" / "sessions" / "sessions.json"
    mirror.parent.mkdir(parents=True)
    mirror.write_text("{broken")
    assert (await checks_named(environ, "earlier files"))[0].level is Level.WARNING
    assert (await checks_named(environ, "mirror"))[0].remedy.endswith("skerry sessions mirror")


async def test_a_state_directory_that_cannot_be_created_is_a_failure(
    environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    missing = environ | {"SKERRY_STATE_DIR": str(tmp_path / "file" / "state")}
    (check,) = await checks_named(missing, "state directory")
    assert (check.level, check.message) == (Level.FAILURE, f"{tmp_path}/file cannot be written to.")
