"""Starts of a browser that fail, with programs of the test in place of Chromium."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.features.browser import browsers, chromium
from skerry.features.browser.browsers import BrowserDownError, Browsers, profile
from skerry.features.browser.config import BrowserConfig
from skerry.model.ids import AgentId
from skerry.net.connect import CheckedConnect
from skerry.net.dns import SystemResolver
from skerry.policy.network import NetworkRules
from tests.support.browsing import Configured
from tests.unit.features.browser.test_checks import program

AGENT = AgentId("main")


@asynccontextmanager
async def holding(home: Path, *, is_root: bool = False, **settings: Any) -> AsyncIterator[Browsers]:
    async with anyio.create_task_group() as tasks:

        def start(work: Callable[[], Awaitable[None]], _: str) -> None:
            async def run() -> None:
                await work()

            tasks.start_soon(run)

        section = BrowserConfig.model_validate({"enabled": True, **settings})
        host = Configured(home, start).host
        resolve = SystemResolver()
        yield Browsers(
            host,
            lambda rules: CheckedConnect(rules, resolve),
            NetworkRules,
            lambda: section,
            is_root=is_root,
        )
        tasks.cancel_scope.cancel()


async def failure(held: Browsers) -> str:
    with pytest.raises(BrowserDownError) as caught:
        async with held.used(AGENT):
            raise AssertionError
    return str(caught.value)


async def test_a_missing_program_names_the_remedy(tmp_path: Path) -> None:
    async with holding(tmp_path, executablePath="/nowhere/chromium") as held:
        assert await failure(held) == (
            "The browser cannot be started: /nowhere/chromium does not exist. Install Chromium"
            " (Debian: apt install chromium), or set browser.executablePath."
        )


async def test_root_needs_the_key_that_turns_the_sandbox_off(tmp_path: Path) -> None:
    path = program(tmp_path, "touch started; exit 1")
    async with holding(tmp_path, is_root=True, executablePath=str(path)) as held:
        assert "set browser.noSandbox to true" in await failure(held)
    assert not (tmp_path / "started").exists()


async def test_the_last_line_of_a_failed_start_is_the_reason(tmp_path: Path) -> None:
    path = program(tmp_path, "echo first >&2; echo No usable sandbox! >&2; exit 1")
    async with holding(tmp_path, executablePath=str(path)) as held:
        assert "Chromium ended: No usable sandbox!" in await failure(held)
        assert held.running(AGENT) is None
        assert not (tmp_path / "browser" / "main").exists()
        assert "No usable sandbox!" in await failure(held)


async def test_a_program_that_does_not_answer_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsers, "START_SECONDS", 0.5)
    path = program(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 100")
    async with holding(tmp_path, executablePath=str(path)) as held:
        assert "did not answer within 0.5 s" in await failure(held)
        assert await held.stop(AGENT) in {True, False}
        number = (tmp_path / "pid").read_text().strip()
        with anyio.fail_after(60):
            while Path(f"/proc/{number}").exists():  # noqa: ASYNC110 - nothing announces it
                await anyio.sleep(0.05)


async def test_the_number_of_browsers_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsers, "MAX_BROWSERS", 0)
    async with holding(tmp_path) as held:
        assert "0 browsers of other agents run already" in await failure(held)


async def test_the_program_gets_no_key_of_the_gateway(tmp_path: Path) -> None:
    environ = {"PATH": "/bin", "API_KEY": "secret", "LANG": "C", "HTTP_PROXY": "http://x"}
    launch = chromium.Launch("chromium", tmp_path, 1234, environ)
    assert launch.variables.keys() == {
        *("PATH", "LANG", "HOME", "TMPDIR"),
        *("DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS"),
    }
    assert "--no-sandbox" not in launch.flags
    assert "--proxy-server=http://127.0.0.1:1234" in launch.flags
    assert chromium.Launch("c", tmp_path, 1, {}, no_sandbox=True).flags[-2] == "--no-sandbox"


async def test_a_profile_that_a_crash_has_left_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "browser" / "main"
    (folder / "profile").mkdir(parents=True)
    (folder / "profile" / "Cookies").write_text("old")
    async with profile(folder, is_kept=False):
        assert list(folder.iterdir()) == []
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


async def test_a_kept_profile_loses_only_its_lock(tmp_path: Path) -> None:
    folder = tmp_path / "main"
    (folder / "profile").mkdir(parents=True)
    (folder / "profile" / "Cookies").write_text("old")
    (folder / "profile" / "SingletonLock").symlink_to("host-1")
    async with profile(folder, is_kept=True):
        pass
    assert [path.name for path in (folder / "profile").iterdir()] == ["Cookies"]
