"""The words that we read of a command line are those that a shell runs.

A shell with a PATH of three stubs runs each line that is read; a stub writes down its words. `p`
and `q` succeed, `f` fails.
"""

import shlex
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from skerry.features.exec import shfmt_reader, tree_reader
from skerry.features.exec.analysis import read
from skerry.features.exec.shell_words import Reading, RefusedCommandError
from tests.support.shown import examples

STUB = '#!/bin/sh\nprintf "%s\\0" $# "${{0##*/}}" "$@" >>"$LOG"\nexit {code}\n'
SHELLS = ("/bin/bash", "/bin/sh")
PIECES = (
    *(
        "a",
        "-x",
        "=",
        "~",
        "#",
        "/",
        ":",
        "%",
        "+",
        ",",
        "é",
        "*",
        "?",
        "[",
        "]",
        "{",
        "}",
        "!",
        "^",
    ),
    *("'b c'", '"d e"', "''", '""', "\\ ", "\\'", '\\"', "\\\\", "\\*", "'\\'", '"\\n"', '"\\""'),
    *('"a$"', '"$|b"', '"\\$"', '"$ x"', '"\\\\$"', '"$)"'),
    *("$", "$x", "`", '"$x"', "'$x'", "$'t'", "{a,b}", "a\\", "'", '"', "@", "a=1", "0", "2"),
)
JOINS = (
    " ; ",
    ";",
    "\n",
    " && ",
    " || ",
    "&&",
    "||",
    " | ",
    "|",
    "\n\n",
    " # c\n",
    " & ",
    "\t",
    "",
)
REDIRECTIONS = (
    *(">/dev/null", "2>&1", " 2> /dev/null", " </dev/null", " >&2", " 1>&2", ">x", "<y", "2>&-"),
    *(" >'/dev/null'", ">>/dev/null ", " <<X", " <<<a", "&>/dev/null", ">&q"),
)
WORDS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join)
SIMPLE = st.builds(
    lambda program, words, redirection: " ".join([program, *words]) + redirection,
    st.sampled_from(["p", "q", "f", "'p'", "\\q", '"f"', "p ''", "! q"]),
    st.lists(WORDS, max_size=3),
    st.sampled_from(["", "", "", *REDIRECTIONS]),
)


def joined(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Gives pairs and groups of commands."""
    pair = st.builds(lambda a, join, b: f"{a}{join}{b}", children, st.sampled_from(JOINS), children)
    group = st.builds(
        lambda form, body: form.format(body),
        st.sampled_from(["({})", "( {} )", "{{ {}; }}", "{{ {}\n}}", "({}) ", "({}) 2>&1"]),
        children,
    )
    return pair | group


LINES = st.recursive(SIMPLE, joined, max_leaves=4)
SOUP = st.lists(
    st.sampled_from(
        ("p", "q", " ", " ", *PIECES, *JOINS, *REDIRECTIONS, "(", ")", "{ ", "; }", "\\\n")
    ),
    min_size=1,
    max_size=10,
).map(lambda pieces: "p " + "".join(pieces))


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stubs")
    for name, code in (("p", 0), ("q", 0), ("f", 1)):
        (folder / name).write_text(STUB.format(code=code))
        (folder / name).chmod(0o755)
    (folder / "empty").mkdir()
    return folder


def executed(shell: str, line: str, stubs: Path) -> Counter[tuple[str, ...]]:
    """Returns the commands that the shell ran."""
    log = stubs / "log"
    log.write_bytes(b"")
    subprocess.run(
        [shell, "-c", line],
        env={"PATH": str(stubs), "LOG": str(log)},
        cwd=stubs / "empty",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    return Counter(_logged(log.read_bytes().decode().split("\0")[:-1]))


def _logged(fields: list[str]) -> Iterator[tuple[str, ...]]:
    while fields:
        count = int(fields[0])
        yield tuple(fields[1 : count + 2])
        fields = fields[count + 2 :]


def read_or_none(line: str) -> Reading | None:
    async def reading() -> Reading:
        return await read(line)

    try:
        return anyio.run(reading)
    except RefusedCommandError:
        return None


def without_time(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the command without the word of the shell that measures it."""
    return argv[1:] if argv[0] in {"time", "-p"} else argv


def agrees(line: str, stubs: Path) -> None:
    reading = read_or_none(line)
    assume(reading is not None)
    assert reading is not None
    commands = [without_time(without_time(simple.argv)) for simple in reading.commands]
    listed = Counter(argv for argv in commands if argv[0] in {"p", "q", "f"})
    shells = SHELLS[:1] if "time " in line else SHELLS
    for shell in shells:
        ran = executed(shell, line, stubs)
        assert ran <= listed, shell
        # sh takes less than bash: what it refuses runs nothing.
        if shell == SHELLS[0] and not {"||", "&&"} & set(reading.shape):
            assert ran == listed


@pytest.mark.abuse(62)
@pytest.mark.abuse(63)
@settings(max_examples=examples(60))
@example("p a | (q; f b) 2>&1 >/dev/null && p '' \"c d\" e\\ f\n{ q -x; }")
@example('p a\\\'b \'c\\d\' "e\\f" "g\\\\h" i=~x j:k')
@example("p>/dev/null a 2>&1 b")
@example("p 2>>/dev/null 1")
@example("time p a | q; time -p f b")
@given(LINES)
def test_a_shell_runs_the_commands_that_are_read_and_no_others(stubs: Path, line: str) -> None:
    agrees(line, stubs)


@pytest.mark.abuse(63)
@settings(max_examples=examples(60))
@given(SOUP)
def test_no_splice_of_quotes_and_signs_runs_what_is_not_read(stubs: Path, line: str) -> None:
    agrees(line, stubs)


@settings(max_examples=examples(60))
@given(st.lists(st.text("ab'\"\\ $*~-#é!", max_size=6), min_size=1, max_size=4))
def test_quoted_words_are_read_as_they_were(words: list[str]) -> None:
    line = shlex.join(["p", *words])
    reading = read_or_none(line)
    assert reading is not None
    assert [simple.argv for simple in reading.commands] == [("p", *words)]


@settings(max_examples=examples(60))
@given(LINES | SOUP)
def test_where_both_parsers_read_a_line_they_mostly_agree_and_else_it_is_refused(line: str) -> None:
    async def second() -> Reading:
        return await shfmt_reader.read(line)

    try:
        pair = tree_reader.read(line), anyio.run(second)
    except RefusedCommandError:
        return
    assert (read_or_none(line) is None) == (pair[0] != pair[1] or "\t" in line or "\\\n" in line)
