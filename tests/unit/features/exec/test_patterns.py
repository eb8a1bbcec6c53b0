"""Patterns of commands, word by word."""

import pytest

from skerry.features.exec.patterns import matches, quoted
from skerry.features.exec.programs import SEARCH_PATH, resolve
from skerry.policy.command_patterns import PatternError, parse, problem


def covers(pattern: str, *argv: str) -> bool:
    program = resolve(argv[0])
    assert program is not None
    return matches(parse(pattern), argv, program, SEARCH_PATH)


@pytest.mark.abuse(65)
@pytest.mark.parametrize(
    ("pattern", "argument", "covered"),
    [
        ("cat *.md", "a.md", True),
        ("cat *.md", "a/b.md", False),
        ("cat *.md", "../b.md", False),
        ("cat *.md", ".md", False),
        ("cat *.md", "-a.md", False),
        ("cat *.md", "A.MD", False),
        ("cat *.md", "a.md\n", False),
        ("cat src/*", "src/a", True),
        ("cat src/*", "src/..", False),
        ("cat src/*", "src/", False),
        ("cat src/*/x", "src/a/x", True),
        ("cat src/*/x", "src/../x", False),
        ("cat a*b", "ab", True),
        ("cat '*'", "a", False),
        ("cat '*'", "*", True),
        ("cat \\*", "*", True),
        ('cat "a b"', "a b", True),
        ("cat a?c", "abc", False),
        ("cat [ab]", "a", False),
        ("cat --x=*", "--x=1", True),
        ("cat --x=*", "--x=a/b", False),
        ("cat *", "-n", False),
        ("cat *", "--", False),
        ("cat *", "-", False),
        ("cat *", "a/../b", True),
    ],
)
def test_a_star_stays_in_its_word_its_folder_and_is_no_option(
    pattern: str, argument: str, *, covered: bool
) -> None:
    assert covers(pattern, "cat", argument) is covered


@pytest.mark.abuse(65)
def test_a_path_names_a_program_and_a_star_in_it_crosses_no_folder() -> None:
    assert covers("/usr/bin/cat", "cat", "-n", "x")
    assert covers("/usr/bin/ca?", "cat")
    assert covers("/usr/**/cat", "cat")
    assert covers("/usr/bin/cat x", "cat", "x")
    assert not covers("/usr/*/cat/*", "cat")
    assert not covers("/usr/*at", "cat")
    assert not covers("/usr/bin/CAT", "cat")
    assert not covers("/usr/bin/tac", "cat")


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "* x", "git*", "./run x", "bin/run", "git 'a", 'git "a', "git \\", "git -*"),
        *("git --*", "git -n*", "git\tx", "git \u200b", "git \ue000", "a" * 5000),
    ],
)
def test_a_pattern_that_could_cover_anything_or_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        parse(text)


@pytest.mark.parametrize("argv", [("cat", "a b", "*", "it's", "", "-n", "\\"), ("cat",)])
def test_what_is_remembered_of_a_command_matches_it_alone(argv: tuple[str, ...]) -> None:
    text = quoted(argv)
    assert parse(text).is_exact
    assert covers(text, *argv)
    assert not covers(text, *argv, "x")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "it is empty"),
        ("ls 'a", "a quote is not closed"),
        ("* -l", "must name a program"),
        ("ls -*", "would take any option"),
        ("bin/ls", "not absolute"),
        ("ls \u202e", "invisible character"),
        ("sudo ls", "runs a command as another user"),
        ("/usr/bin/sudo", "runs a command as another user"),
        ("python3 *", "without *"),
        ("/usr/bin/python3", "without *"),
        ("timeout 5 ls *", "without *"),
        ("find . *", "without *"),
        ("ls | wc", "| outside quotes"),
        ("make && ls", "&& outside quotes"),
        ("echo $HOME", "$ outside quotes"),
        ("ls >x", "> outside quotes"),
        ("FOO=1 ls", "begins with a variable"),
        ("rm ~/x", "~ is not expanded"),
        ("grep 'a|b$' \"<\" \\; x~", ""),
        ("'FOO=1' ls", ""),
        ("~/bin/tool", ""),
        ("env A=1 ls", ""),
        ("ls *", ""),
        ("python3 run.py", ""),
        ("git diff *", ""),
        ("/usr/bin/git", ""),
        ("git *", ""),
        ("git cat-file *", ""),
        ("git-lfs *", "without *"),
    ],
)
def test_a_pattern_that_can_match_nothing_says_why(pattern: str, why: str) -> None:
    assert why in problem(pattern)
    assert bool(problem(pattern)) is bool(why)
