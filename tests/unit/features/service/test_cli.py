"""`skerry service` as a process, with a stand-in for systemctl that records its calls."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from skerry.features.service.systemd_unit import unit
from skerry.model.errors import StateError

from .conftest import Command

STAND_IN = """#!/bin/sh
echo "$*" >> "{log}"
case "$2" in show) printf 'ActiveState=active\\nUnitFileState=enabled\\n';; esac
case "$*" in *{refuses}*) echo "Failed to connect to bus" >&2; exit 1;; esac
"""


class Systemd:
    """A directory for PATH with a `systemctl`, and the calls of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.bin = home / "bin"
        self.log = home / "asked"
        self.path = home / ".config" / "systemd" / "user" / "skerry.service"
        self.bin.mkdir()
        self.answer()

    def answer(self, refuses: str = "never-asked") -> None:
        self._write("systemctl", STAND_IN.format(log=self.log, refuses=refuses))
        self._write("loginctl", "#!/bin/sh\necho no\n")

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def _write(self, name: str, text: str) -> None:
        file = self.bin / name
        file.write_text(text)
        file.chmod(0o700)


@pytest.fixture
def systemd(tmp_path: Path, environ: dict[str, str]) -> Systemd:
    found = Systemd(tmp_path)
    environ["PATH"] = f"{found.bin}:{environ['PATH']}"
    environ["USER"] = "somebody"
    return found


async def test_install_writes_the_unit_and_starts_it(
    systemd: Systemd, command: Command, environ: dict[str, str]
) -> None:
    completed = await command("service", "install")
    assert completed.returncode == 0, completed.stderr
    text = systemd.path.read_text()
    assert f'"SKERRY_STATE_DIR={environ["SKERRY_STATE_DIR"]}"' in text
    assert '"-m" "skerry" "gateway" "run"' in text
    assert systemd.asked[1:] == [
        "--user daemon-reload",
        "--user enable skerry.service",
        "--user restart skerry.service",
    ]
    assert b"enable-linger somebody" in completed.stderr


async def test_install_without_a_start_only_enables(systemd: Systemd, command: Command) -> None:
    completed = await command("service", "install", "--no-start")
    assert completed.returncode == 0
    assert systemd.asked[-1] == "--user enable skerry.service"


async def test_keys_that_only_the_shell_has_are_named_but_not_shown(
    systemd: Systemd, command: Command, environ: dict[str, str]
) -> None:
    assert systemd.asked == []
    environ["OPENAI_API_KEY"] = "sk-canary-of-the-shell"
    completed = await command("service", "install")
    assert b"OPENAI_API_KEY" in completed.stderr
    assert b"sk-canary" not in completed.stdout + completed.stderr + systemd.path.read_bytes()


async def test_a_variable_that_the_configuration_refers_to_may_be_the_service_s_alone(
    systemd: Systemd, command: Command, environ: dict[str, str]
) -> None:
    home = Path(environ["SKERRY_STATE_DIR"])
    home.mkdir(mode=0o700, exist_ok=True)
    own = '{"own": {"baseUrl": "http://h/v1", "apiKey": "${OWN_KEY}"}}'
    (home / "skerry.json").write_text(f'{{"models": {{"providers": {own}}}}}')
    completed = await command("service", "install")
    assert (completed.returncode, b"OWN_KEY" in completed.stderr) == (0, False)
    environ["OWN_KEY"] = "canary-of-the-shell"
    completed = await command("service", "install")
    assert (completed.returncode, b"OWN_KEY" in completed.stderr) == (0, True)
    assert b"canary" not in completed.stdout + completed.stderr + systemd.path.read_bytes()


async def test_a_refusal_of_systemd_is_told_with_a_way_on(
    systemd: Systemd, command: Command
) -> None:
    systemd.answer(refuses="daemon-reload")
    completed = await command("service", "install")
    assert completed.returncode == 1
    assert b"Failed to connect to bus" in completed.stderr
    assert b"skerry service show" in completed.stderr
    assert not systemd.path.exists()
    assert b"Wrote" not in completed.stdout


async def test_without_a_bus_of_the_user_nothing_is_written(
    systemd: Systemd, command: Command
) -> None:
    systemd.answer(refuses="--user")
    completed = await command("service", "install")
    assert (completed.returncode, completed.stdout) == (1, b"")
    assert b"Failed to connect to bus" in completed.stderr
    assert not systemd.path.parent.exists()


async def test_a_refusal_of_systemd_leaves_the_unit_that_was_installed(
    systemd: Systemd, command: Command
) -> None:
    systemd.path.parent.mkdir(parents=True)
    systemd.path.write_text("an older unit")
    systemd.answer(refuses="enable")
    assert (await command("service", "install")).returncode == 1
    assert systemd.path.read_text() == "an older unit"


async def test_a_system_without_systemd_is_told_before_anything_is_written(
    systemd: Systemd, command: Command, environ: dict[str, str]
) -> None:
    environ["PATH"] = str(systemd.home / "nothing")
    completed = await command("service", "install")
    assert completed.returncode == 1
    assert b"no systemd" in completed.stderr
    assert not systemd.path.exists()


async def test_status_says_whether_it_runs(systemd: Systemd, command: Command) -> None:
    absent = await command("service", "status", "--json")
    assert (absent.returncode, b'"installed": false' in absent.stdout) == (1, True)
    await command("service", "install")
    running = await command("service", "status")
    assert running.returncode == 0
    assert running.stdout.startswith(b"active, enabled")
    systemd.path.write_text("# of another version\n")
    stale = await command("service", "status")
    assert b"skerry service install" in stale.stderr


async def test_uninstall_removes_the_unit_and_is_content_with_none(
    systemd: Systemd, command: Command
) -> None:
    await command("service", "install")
    completed = await command("service", "uninstall")
    assert completed.returncode == 0
    assert not systemd.path.exists()
    assert "--user disable --now skerry.service" in systemd.asked
    assert (await command("service", "uninstall")).returncode == 0


async def test_show_prints_the_unit_and_writes_nothing(systemd: Systemd, command: Command) -> None:
    completed = await command("service", "show")
    assert completed.stdout.startswith(b"# Written by")
    assert not systemd.path.exists()
    assert systemd.asked == []


def test_odd_paths_are_escaped_as_systemd_reads_them() -> None:
    odd = Path('/home/a b/100%/$HOME/qu"ote')
    text = unit(["/opt/$x/python"], odd, odd / "skerry.json", 30)
    assert 'ExecStart="/opt/$$x/python"' in text
    assert '"SKERRY_STATE_DIR=/home/a b/100%%/$HOME/qu\\"ote"' in text
    assert "TimeoutStopSec=45" in text


@pytest.mark.abuse(95)
@pytest.mark.parametrize("break_", ["\n", "\r", "\x0b", "\x1b", "\u2028"])
def test_no_path_begins_a_line_of_its_own_in_the_unit(break_: str) -> None:
    odd, plain = Path(f"/home/x{break_}ExecStartPre=/bin/sh"), Path("/home/x/skerry.json")
    for command, state, config in (
        (["/usr/bin/python3"], odd, plain),
        (["/usr/bin/python3"], plain, odd),
        ([str(odd)], plain, plain),
    ):
        with pytest.raises(StateError, match="not allowed in a unit") as refused:
            unit(command, state, config, 30)
        assert "Move" in refused.value.remedy


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "skerry.service"
    program = shutil.which("true")
    assert program is not None
    file.write_text(unit([program], tmp_path / "a b", tmp_path / "100%.json", 30))
    completed = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(file)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (completed.returncode, completed.stderr) == (0, "")
