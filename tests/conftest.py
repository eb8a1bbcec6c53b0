"""What every test shares: the event loop, the environment, the mark `full`."""

import os

import pytest
from hypothesis import settings

KEPT = {
    "SKERRY_AIMOCK",
    "SKERRY_DATA",
    "SKERRY_EXAMPLES",
    "SKERRY_EXPLORE",
    "SKERRY_FULL",
    "SKERRY_KILLS",
    "SKERRY_LLMOCK",
    "SKERRY_MIXED_KILLS",
    "SKERRY_OPENCLAW",
    "SKERRY_SEED",
    "SKERRY_TEST_GGUF",
}


def pytest_configure() -> None:
    """Keep the developer's own gateway, keys and proxies out of the tests."""
    for name in list(os.environ):
        ours = name.startswith(("SKERRY_", "OPENCLAW_")) and name not in KEPT
        if ours or name.endswith(("_API_KEY", "_PROXY", "_proxy")):
            del os.environ[name]
    # A deadline in wall time would fail on a busy machine, an example that nobody saw before in
    # somebody else's change: new ones are looked for by `make explore`.
    explores = os.environ.get("SKERRY_EXPLORE") == "1"
    settings.register_profile("skerry", deadline=None, derandomize=not explores)
    settings.load_profile("skerry")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what only `make test-all` can run; there nothing is skipped."""
    if os.environ.get("SKERRY_FULL") == "1":
        return
    for item in items:
        if mark := item.get_closest_marker("full"):
            item.add_marker(pytest.mark.skip(f"needs {mark.args[0]}: make test-all"))


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, the only backend the gateway uses."""
    return "asyncio"
