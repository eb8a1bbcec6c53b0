"""AppArmor: the profile that an engine receives, and the notice without AppArmor."""

import os
import shlex
from pathlib import Path

import anyio
import pytest

from skerry.config.check import check
from skerry.config.root import Config
from skerry.features.sandbox import apparmor
from skerry.features.sandbox.containers import Containers
from skerry.features.sandbox.open_sandbox import open_sandbox
from skerry.model.errors import ConfigError, SandboxError
from skerry.model.ids import MAIN_AGENT
from skerry.ports.sandbox import SandboxSpec
from skerry.sdk.slots import SandboxHost

pytestmark = pytest.mark.anyio
ENGINE = """#!/bin/sh
case "$1" in
  run) shift; printf '%s\\n' "$@" > "$ARGUMENTS"; [ -z "$LABEL" ] || exit 0
    echo "docker: Error response from daemon: refused" >&2; echo >&2
    echo "Run 'docker run --help' for more information" >&2; exit 125 ;;
  inspect) echo "1 $LABEL" ;;
  rm) printf '%s\\n' "$*" >> "$ARGUMENTS.removed" ;;
  *) echo 1 ;;
esac
"""
"""An engine that notes the options of a container. It starts none; it claims one with a label."""


class Engine:
    """The program `docker` in a folder of its own."""

    def __init__(self, folder: Path, label: str = "") -> None:
        self.arguments = folder / "arguments"
        program = folder / "bin" / "docker"
        program.parent.mkdir()
        given = f"ARGUMENTS={shlex.quote(str(self.arguments))} LABEL={shlex.quote(label)}\n"
        program.write_text(ENGINE.replace("case", f"{given}case", 1))
        program.chmod(0o755)
        self.environ = {"PATH": f"{program.parent}:{os.environ['PATH']}"}

    @property
    def options(self) -> list[str]:
        """Returns the values of the options `--security-opt`."""
        words = self.arguments.read_text().splitlines()
        return [words[at + 1] for at, word in enumerate(words) if word == "--security-opt"]


def config_of(state: Path, **docker: object) -> Config:
    (state / "workspace").mkdir(mode=0o700, parents=True)
    tree = {"agents": {"defaults": {"sandbox": {"backend": "docker", "docker": docker}}}}
    return check(tree, state_dir=state, path=state / "skerry.json")[0]


async def started(config: Config, environ: dict[str, str]) -> None:
    """Starts a command by docker, whatever its self-test says."""
    sandboxes = open_sandbox(SandboxHost(lambda: config, environ))
    granted = sandboxes.granted(SandboxSpec(["true"], config.state_dir / "workspace", MAIN_AGENT))
    backend = Containers("docker", environ, config.state_dir)
    with anyio.fail_after(60):
        async with sandboxes.within(backend, granted):
            pass


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file by which the kernel tells of AppArmor."""
    file = tmp_path / "enabled"
    monkeypatch.setattr(apparmor, "ENABLED", file)
    return file


@pytest.mark.requirement("sandbox-apparmor")
@pytest.mark.parametrize(
    ("configured", "named"), [(None, "docker-default"), ("skerry-agents", "skerry-agents")]
)
async def test_a_container_gets_a_profile_where_the_machine_has_apparmor(
    tmp_path: Path, machine: Path, configured: str | None, named: str
) -> None:
    machine.write_text("Y\n")
    engine = Engine(tmp_path)
    docker = {} if configured is None else {"apparmorProfile": configured}
    with pytest.raises(SandboxError, match=r"cannot start a container: docker: Error .* refused$"):
        await started(config_of(tmp_path / "state", **docker), engine.environ)
    assert f"apparmor={named}" in engine.options


@pytest.mark.requirement("sandbox-no-new-privileges")
@pytest.mark.requirement("sandbox-cap-drop")
@pytest.mark.requirement("sandbox-readonly-root")
async def test_a_container_has_no_rights_and_cannot_write_its_root(
    tmp_path: Path, machine: Path
) -> None:
    machine.write_text("N\n")
    engine = Engine(tmp_path)
    with pytest.raises(SandboxError, match="refused"):
        await started(config_of(tmp_path / "state"), engine.environ)
    words = engine.arguments.read_text().splitlines()
    assert words[words.index("--cap-drop") + 1] == "ALL"
    assert "no-new-privileges" in engine.options
    assert "--read-only" in words


async def test_without_apparmor_none_is_named_and_one_that_is_configured_is_missed(
    tmp_path: Path, machine: Path
) -> None:
    machine.write_text("N\n")
    engine = Engine(tmp_path)
    with pytest.raises(SandboxError, match="refused"):
        await started(config_of(tmp_path / "state"), engine.environ)
    assert "no-new-privileges" in engine.options
    assert not [word for word in engine.options if word.startswith("apparmor")]
    engine.arguments.unlink()
    named = config_of(tmp_path / "other", apparmorProfile="skerry-agents")
    with pytest.raises(SandboxError, match="this machine has no AppArmor"):
        await started(named, engine.environ)
    assert not engine.arguments.exists()


@pytest.mark.requirement("sandbox-apparmor")
async def test_a_container_that_no_profile_confines_is_removed(
    tmp_path: Path, machine: Path
) -> None:
    machine.write_text("Y\n")
    engine = Engine(tmp_path, label="unconfined")
    with pytest.raises(SandboxError, match="without an AppArmor profile"):
        await started(config_of(tmp_path / "state"), engine.environ)
    assert "rm --force skerry-sbx-agent-main-" in Path(f"{engine.arguments}.removed").read_text()


async def test_bubblewrap_is_no_substitute_for_a_profile_that_is_configured(
    tmp_path: Path,
) -> None:
    config = config_of(tmp_path / "state", apparmorProfile="skerry-agents")
    sandbox = open_sandbox(SandboxHost(lambda: config, os.environ))
    result = await sandbox.tested("bubblewrap", config.sandbox(MAIN_AGENT))
    assert not result.usable
    assert "cannot set an AppArmor profile" in result.remedy


@pytest.mark.parametrize("name", ["unconfined", "ns:unconfined", "-x", "a,b", ""])
def test_what_confines_nothing_is_refused_when_the_configuration_is_read(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(ConfigError, match="apparmorProfile"):
        config_of(tmp_path / "state", apparmorProfile=name)
