"""The parsers of `skerry memwal`."""

from argparse import ArgumentParser

import pytest

from skerry_memwal import cli


@pytest.mark.parametrize(
    "line",
    [
        *("search boats", "stats", "status", "keys", "remember text", "forget words"),
        *("export", "import FILE"),
    ],
)
def test_each_command_takes_json_and_an_agent(line: str) -> None:
    parser = ArgumentParser()
    cli.add(parser)
    namespace = parser.parse_args([*line.split(), "--json", "--agent", "work"])
    assert (namespace.json, namespace.agent) == (True, "work")
    assert not parser.parse_args(line.split()).json
