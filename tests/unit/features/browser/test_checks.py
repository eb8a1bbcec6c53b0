"""The check of the doctor, with programs of the test in place of Chromium."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from skerry.config.root import Config
from skerry.features.browser.checks import chromium
from skerry.features.browser.config import BrowserConfig
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation


def program(folder: Path, text: str, name: str = "chromium") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


async def checked(folder: Path, section: Mapping[str, Any] | None) -> list[Check]:
    config = Config(state_dir=folder, path=folder / "skerry.json")
    if section is not None:
        settings = BrowserConfig.model_validate({"noSandbox": True, **section})
        config = config.model_copy(update={"browser": settings})
    return list(await chromium(Installation(folder, {"PATH": str(folder)}, config)))


@pytest.mark.parametrize("section", [None, {}, {"enabled": False}])
async def test_without_the_tool_nothing_is_checked(
    tmp_path: Path, section: dict[str, Any] | None
) -> None:
    assert await checked(tmp_path, section) == []


async def test_the_version_is_reported(tmp_path: Path) -> None:
    path = program(tmp_path, "echo Chromium 156.0.1")
    found, sandbox = await checked(tmp_path, {"enabled": True})
    assert found == Check("browser", Level.OK, f"Chromium 156.0.1 ({path}).")
    assert sandbox.level is Level.WARNING
    assert "browser.noSandbox" in sandbox.message


async def test_a_configured_program_is_used(tmp_path: Path) -> None:
    path = program(tmp_path, "echo Other 1", "other")
    section = {"enabled": True, "executablePath": str(path)}
    assert (await checked(tmp_path, section))[0].message == f"Other 1 ({path})."


@pytest.mark.parametrize("section", [{}, {"executablePath": "/nowhere/chromium"}])
async def test_a_missing_program_names_the_remedy(tmp_path: Path, section: dict[str, Any]) -> None:
    (check,) = await checked(tmp_path, {"enabled": True, **section})
    assert check.level is Level.FAILURE
    assert check.message == f"{section.get('executablePath', 'Chromium')} does not exist."
    assert "apt install chromium" in check.remedy


async def test_a_program_that_fails_is_reported(tmp_path: Path) -> None:
    program(tmp_path, "exit 3")
    (check,) = await checked(tmp_path, {"enabled": True})
    assert check.level is Level.FAILURE
    assert "ended with code 3" in check.message


async def test_root_needs_the_key_that_turns_the_sandbox_off(tmp_path: Path) -> None:
    program(tmp_path, "echo Chromium 156.0.1")
    checks = await checked(tmp_path, {"enabled": True, "noSandbox": False})
    expected = Level.FAILURE if os.geteuid() == 0 else Level.OK
    assert [check.level for check in checks] == [expected]
