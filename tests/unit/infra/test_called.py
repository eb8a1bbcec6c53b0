"""What starts this program again, as it was installed."""

import os
from pathlib import Path

import pytest

from skerry.features.service.systemd_unit import NAME
from skerry.infra.called import command, start_command


def test_a_checkout_is_started_by_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(tmp_path / ".venv" / "bin" / "skerry")])
    assert start_command({}).endswith("skerry gateway run")
    (tmp_path / "Makefile").touch()
    assert start_command({}) == "make start"


def test_an_installed_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["/opt/x/skerry"])
    assert start_command({}).endswith("skerry gateway run")
    monkeypatch.setattr("sys.argv", ["/opt/x/__main__.py"])
    assert (command(), start_command({})) == ("python -m skerry", "python -m skerry gateway run")


def test_a_service_is_started_by_systemd_and_what_it_starts_is_not() -> None:
    assert start_command({"SYSTEMD_EXEC_PID": str(os.getpid())}) == f"systemctl --user start {NAME}"
    assert "systemctl" not in start_command({"SYSTEMD_EXEC_PID": "1"})
