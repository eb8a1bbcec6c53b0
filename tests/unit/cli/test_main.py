"""The command as a shell sees it."""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

import skerry
from skerry.cli.groups import groups
from skerry.cli.main import main, make_parser
from skerry.cli.options import THINKING
from skerry.model.thinking import ThinkingLevel

HEAVY = {"pydantic", "anyio", "httpx2", "msgspec", "websockets", "starlette", "uvicorn"}


def skerry_command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "skerry", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_without_a_command_it_prints_the_commands() -> None:
    completed = skerry_command()
    assert (completed.returncode, completed.stderr) == (0, "")
    for command in ("gateway", "chat", "agent", "models", "doctor", "exit codes"):
        assert command in completed.stdout


def test_the_help_shows_every_command_in_one_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = re.findall(r"^  ([a-z]+) ", capsys.readouterr().out, re.MULTILINE)
    assert shown == [name for _, names in groups() for name in names]
    assert sorted(shown) == sorted(make_parser().texts)


def test_the_levels_of_thinking_are_those_of_the_model() -> None:
    assert list(THINKING) == [level.value for level in ThinkingLevel]


def test_a_group_without_a_command_prints_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway"]) == 0
    assert "usage: skerry gateway" in capsys.readouterr().out


def test_the_version_is_printed() -> None:
    assert skerry_command("--version").stdout == f"skerry {skerry.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["gateway", "call"],
        ["gateway", "run", "--port", "70000"],
        ["gateway", "run", "--bind", "sideways"],
        ["agent"],
        ["agent", "--message", "x", "--timeout", "0"],
        ["models", "use"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_prints_nothing_on_stdout(arguments: list[str]) -> None:
    completed = skerry_command(*arguments)
    assert (completed.returncode, completed.stdout) == (2, "")


def test_help_imports_nothing_heavy() -> None:
    """The budget of 0.06 CPU s (bench/start.py) holds only without them."""
    code = (
        "import sys, skerry.cli.main as m\n"
        "try: m.main(['--help'])\n"
        "except SystemExit: pass\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert completed.stderr == "[]\n"


def test_every_command_can_be_imported_first() -> None:
    """Most tests run commands in a fork of a process that has all of them imported."""
    names = set(_modules(make_parser()))
    modules = sorted(name if "." in name else f"skerry.cli.{name}" for name in names)
    assert len(modules) > len(groups())
    # What others wrote is loaded once: only modules of ours can depend on who imports them first.
    # What others wrote is loaded once: only modules of ours can depend on who imports them first.
    loaded = "import sys; [__import__(name) for name in sys.argv[1:]]; print(*sys.modules)"
    code = (
        "import os, subprocess, sys\n"
        f"command = [sys.executable, '-c', {loaded!r}, *sys.argv[1:]]\n"
        "for name in subprocess.check_output(command, text=True).split():\n"
        "    if name.partition('.')[0] != 'skerry':\n"
        "        try: __import__(name)\n"
        "        except ImportError: pass\n"
        "assert len(sys.modules) > 500 and 'skerry' not in sys.modules\n"
        "for name in sys.argv[1:]:\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        __import__(name)\n"
        "        os._exit(0)\n"
        "    if os.waitpid(child, 0)[1]: print(name)\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code, *modules],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (completed.stdout, completed.stderr) == ("", "")


def _modules(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yields the modules that have the commands of a parser."""
    if module := parser.get_default("module"):
        yield module
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for choice in action.choices.values():
                yield from _modules(choice)


def test_a_reader_that_leaves_is_no_error_message() -> None:
    command = f"{sys.executable} -m skerry --help | true"
    completed = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert completed.stderr == ""


def test_the_parser_of_one_command_has_what_the_whole_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = make_parser()
    for name in whole.texts:
        shown = []
        for parser in (whole, make_parser(name)):
            with pytest.raises(SystemExit):
                parser.parse_args([name, "--help"])
            shown.append(capsys.readouterr().out)
        assert shown[0] == shown[1]
        assert make_parser(name).texts == {name: whole.texts[name]}
