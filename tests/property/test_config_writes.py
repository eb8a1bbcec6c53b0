"""Whatever is written, the file can be read, and a death in the middle leaves old or new."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.config import source
from skerry.config.paths import MISSING, lookup, parse_key_path, replaced, show_key_path
from skerry.config.write import ConfigAuthor, set_values
from skerry.model.errors import ConfigError
from tests.support.shown import examples

places = st.sampled_from(
    [
        "gateway.port",
        "gateway.auth.token",
        "agents.defaults.model",
        "agents.defaults.model.primary",
        "agents.list",
        "agents.list[0].name",
        "messages.queue.mode",
        "models.providers.own",
        "models.providers.own.apiKey",
        "env.vars.SOME_KEY",
        "env.vars.PATH",
        "note.of.mine",
        "bindings",
        "$include",
    ]
)
values: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        1,
        70_000,
        "text",
        "${GONE}",
        "steer",
        "a/b",
        {},
        [],
        {"baseUrl": "http://h/v1"},
        [{"id": "a"}],
        [{"agentId": "a", "match": {"channel": "x"}}],
    ]
) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(places, values), min_size=1, max_size=8))
def test_random_changes_never_leave_a_file_that_cannot_be_read(
    edits: list[tuple[str, Any]],
) -> None:
    with TemporaryDirectory() as directory:
        file = Path(directory) / "skerry.json"
        told: Any = {}
        for place, value in edits:
            try:
                set_values(file, {place: value}, author=ConfigAuthor(environ={"A": "b"}))
            except ConfigError:
                pass  # what is refused changes nothing
            else:
                told = json.loads(file.read_text()) if file.exists() else {}
                expected = MISSING if value is None else value
                assert lookup(told, parse_key_path(place)) == expected
            present = source.read(file).parsed
            assert present == told


@given(st.dictionaries(st.text("abc", min_size=1), st.integers(), max_size=5), st.integers())
def test_a_place_that_was_set_is_removed_without_a_trace(tree: dict[str, int], value: int) -> None:
    after = replaced(replaced(tree, ("new",), value), ("new",), MISSING)
    assert after == tree


WRITER = """
import sys
from pathlib import Path
from skerry.config.write import set_values
for number in range(1, 100000):
    set_values(Path(sys.argv[1]), {"gateway.port": number % 65535, "pad": "x" * 20000})
    print(number, flush=True)
"""


def test_a_writer_that_is_killed_leaves_a_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "skerry.json"
    set_values(file, {"gateway.port": 1})
    for writes in (1, 2, 3, 5, 8, 13):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE, env=os.environ
        )
        with process:
            assert process.stdout is not None
            for _ in range(writes):
                assert process.stdout.readline()
            process.send_signal(signal.SIGKILL)  # somewhere in the next write
        assert source.read(file).parsed["gateway"]["port"] >= 1
        set_values(file, {"gateway.port": 1})  # the lock went with the writer


parts = st.one_of(st.integers(0, 99_999), st.text(), st.text("a.[]\"'\\", max_size=4))


@given(st.lists(parts, min_size=1, max_size=6).map(tuple))
def test_a_place_that_is_shown_is_read_again(place: tuple[str | int, ...]) -> None:
    assert parse_key_path(show_key_path(place)) == place
