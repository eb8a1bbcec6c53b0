"""What every test shares: the event loop, the environment, the mark `full`."""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from scripts.failed import OUTPUTS
from tests.support.shown import profile

KEPT = {
    "SKERRY_AIMOCK",
    "SKERRY_DATA",
    "SKERRY_EXAMPLES",
    "SKERRY_EXPLORE",
    "SKERRY_FORKS",
    "SKERRY_FULL",
    "SKERRY_KILLS",
    "SKERRY_LLMOCK",
    "SKERRY_MIXED_KILLS",
    "SKERRY_OPENCLAW",
    "SKERRY_SEED",
    "SKERRY_TEST_GGUF",
    "SKERRY_UNITS",
}

MAX_FAILURE_CHARS = 4000
"""Characters of a failure that are kept: its end has what replays it."""


STORE = Path(__file__).parent / "unit" / "store"
MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes private folders below it
"""File system in memory, where a COMMIT waits for no disk: a quarter of the CPU time of tests."""
MEMORY_BYTES = 4 * 2**30
"""Free space that it must have; a whole run fills a quarter of that."""


def pytest_configure() -> None:
    """Keeps the developer's own gateway, keys and proxies out of the tests."""
    for name in list(os.environ):
        ours = name.startswith(("SKERRY_", "OPENCLAW_")) and name not in KEPT
        if ours or name.endswith(("_API_KEY", "_PROXY", "_proxy")):
            del os.environ[name]
    with suppress(OSError):
        if shutil.disk_usage(MEMORY).free >= MEMORY_BYTES and os.access(MEMORY, os.W_OK):
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    # A shell ignores SIGINT in what it starts in the background, and each child would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Hundreds of processes are started: compiling the modules is a third of what each start costs.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # SKERRY_FORKS=0 starts an interpreter for each gateway and command.
    os.environ.setdefault("SKERRY_FORKS", "1")
    settings.register_profile("skerry", profile())
    settings.load_profile("skerry")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what only `make test-all` can run; there nothing is skipped."""
    if os.environ.get("SKERRY_FULL") == "1":
        return
    for item in items:
        if mark := item.get_closest_marker("full"):
            item.add_marker(pytest.mark.skip(f"needs {mark.args[0]}: make test-all"))


def pytest_collection_finish() -> None:
    """Takes the thousands of collected tests out of what each garbage collection looks through."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def anyio_backend() -> str:
    """Runs async tests on asyncio, the only backend the gateway uses."""
    return "asyncio"


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """Gives a test an empty folder on the disk, since sandboxes refuse folders below `/dev`."""
    with TemporaryDirectory(prefix="skerry-test-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Records the failure of each test, for the list of tests that pass only alone."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    cache = getattr(session.config, "cache", None)
    if reporter is None or cache is None:
        return  # a process among several; the one that started them has all reports
    failed = [one for kind in ("failed", "error") for one in reporter.stats.get(kind, [])]
    cache.set(OUTPUTS, {one.nodeid: _said(one) for one in failed})


def _said(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return f"{getattr(crash, 'message', '')}\n{report.longreprtext[-MAX_FAILURE_CHARS:]}".strip()


@pytest.fixture(autouse=True)
def _units(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs each unit of the store twice with SKERRY_UNITS=twice; its own tests in CI always."""
    full = os.environ.get("SKERRY_FULL") == "1"
    if os.environ.get("SKERRY_UNITS") == "twice" or (full and STORE in request.path.parents):
        from tests.support.twice import every_unit  # noqa: PLC0415 - most runs do without

        every_unit(monkeypatch)
