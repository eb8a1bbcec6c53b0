"""Checks of `skerry doctor` about the network."""

from pathlib import Path

from skerry.features.web.checks import open_network, search_provider
from skerry.ports.checks import Level
from skerry.sdk.features import Installation
from tests.support.web_tools import Host


async def test_an_open_local_network_is_a_warning(tmp_path: Path) -> None:
    host = Host(tmp_path, {}, {})
    assert list(await open_network(Installation(tmp_path, {}, host.config))) == []
    assert list(await open_network(Installation(tmp_path, {}, None))) == []
    host.set({"fetch": {"ssrfPolicy": {"allowPrivateNetwork": True}}})
    (check,) = await open_network(Installation(tmp_path, {}, host.config))
    assert check.level is Level.WARNING
    assert "allowedHostnames" in check.remedy


async def test_the_provider_of_searches_is_named(tmp_path: Path) -> None:
    host = Host(tmp_path, {}, {})
    installation = Installation(tmp_path, {"BRAVE_API_KEY": "k"}, host.config)
    (check,) = await search_provider(installation)
    assert check.message == "web_search uses brave."
    host.set({"search": {"enabled": False}})
    assert list(await search_provider(Installation(tmp_path, {}, host.config))) == []
