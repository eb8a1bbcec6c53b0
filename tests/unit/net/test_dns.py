"""Names as the machine resolves them, without its search domains."""

import socket
from pathlib import Path
from typing import Any

import pytest

from skerry.net.dns import SystemResolver, hosts_addresses

HOSTS = """
127.0.0.1 localhost
93.184.216.34  a.example A.Example.org # a.comment
1.1.1.1 b.example
2606:4700::1111 b.example
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    path = tmp_path / "hosts"
    path.write_text(HOSTS)
    return path


def test_the_hosts_file_has_the_addresses_of_whole_names(hosts: Path) -> None:
    assert hosts_addresses(hosts, "a.example") == ["93.184.216.34"]
    assert hosts_addresses(hosts, "a.example.org") == ["93.184.216.34"]
    assert hosts_addresses(hosts, "b.example") == ["1.1.1.1", "2606:4700::1111"]
    assert hosts_addresses(hosts, "a.comment") == hosts_addresses(hosts, "example") == []
    assert hosts_addresses(hosts.parent / "none", "a.example") == []


async def test_name_servers_are_asked_for_exactly_this_name(
    hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(host: str, *_: object, **__: object) -> list[Any]:
        asked.append(host)
        if host == "none.example.":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(0, 0, 0, "", (address, 0)) for address in ("1.1.1.1", "1.0.0.1", "1.1.1.1")]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    resolve = SystemResolver(hosts)
    assert await resolve("c.example") == ["1.1.1.1", "1.0.0.1"]
    assert await resolve("none.example") == []
    assert await resolve("a.example") == ["93.184.216.34"]
    assert asked == ["c.example.", "none.example."]
