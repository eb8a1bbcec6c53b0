"""The command `skerry`: parses the arguments, then imports the requested command."""

import gc
import re
import sys
from argparse import Action, HelpFormatter, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TypeVar

from skerry import __version__
from skerry.cli.groups import feature, groups
from skerry.cli.meant import UNRECOGNIZED, Parser, WrongUsageError
from skerry.cli.options import (
    Add,
    bind,
    command,
    group,
    output,
    reach,
    timeout,
    whole,
)
from skerry.infra.features import FEATURES

C = TypeVar("C", int, int | None)
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
"""Names that may be the id of a plugin."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""
_EPILOG = "`skerry COMMAND --help` lists its options; `skerry --version` prints the version."
EXIT_CODES = "exit codes: 0 success, 1 failure, 2 wrong usage, 124 timeout, 130 interrupted"


class _Top(Parser):
    """Parser of `skerry` itself, whose help shows the commands in groups."""

    texts: dict[str, str]
    """Help text of each command."""

    def format_help(self) -> str:
        formatter = HelpFormatter(self.prog, max_help_position=16)
        for title, names in groups():
            formatter.start_section(title)
            formatter.add_arguments(
                [Action([], name, metavar=name, help=self.texts[name]) for name in names]
            )
            formatter.end_section()
        usage = f"usage: {self.prog} COMMAND ..."
        return f"{usage}\n\n{self.description}\n\n{formatter.format_help()}\n{self.epilog}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code.

    Raises:
        SystemExit: after `--help`, `--version`, or wrong usage (code 2).
    """
    words = sys.argv[1:] if arguments is None else arguments
    parser = make_parser(words[0] if words else "")
    if words and NAME.fullmatch(words[0]) and words[0] not in parser.texts:
        run_plugin: Callable[[Sequence[str]], int | None]
        run_plugin = import_module("skerry.cli.plugin_command").run
        code = _guarded(partial(run_plugin, words), f"skerry {words[0]}", as_json="--json" in words)
        if code is not None:
            return code
    try:
        parsed, unrecognized = parser.parse_known_args(words)
        if unrecognized:
            parsed.parser.error(UNRECOGNIZED + " ".join(unrecognized))
    except WrongUsageError as error:
        if "--json" in words:
            import_module("skerry.cli.failure").show_wrong_usage(error)
        raise
    if parsed.module is None:
        parsed.parser.print_help()
        return 0
    as_json = getattr(parsed, "json", False)
    return _guarded(lambda: _load(parsed.module)(parsed), parsed.parser.prog, as_json=as_json)


def _guarded(run: Callable[[], C], command: str, *, as_json: bool) -> C | int:
    """Returns the exit code of a command, also when it fails or is interrupted."""
    try:
        code = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output ended; the interpreter must not flush into the pipe again.
        sys.stdout = None
        return 1
    except Exception as error:  # noqa: BLE001 - each becomes three lines on stderr
        report: Callable[..., int] = import_module("skerry.cli.failure").report
        return report(error, command, as_json=as_json)
    return code


def _load(module: str) -> Callable[[Namespace], int]:
    """Imports a command; later garbage collections skip its modules."""
    gc.disable()
    path = module if "." in module else f"skerry.cli.{module}"
    run: Callable[[Namespace], int] = import_module(path).run
    gc.collect()
    gc.freeze()
    gc.enable()
    return run


def make_parser(name: str | None = None) -> "_Top":
    """Returns the parser of the whole command line.

    With the `name` of a command it contains that command only: all parsers take 20 ms of CPU and
    half a megabyte, which a gateway would keep. A command of a feature then has name and text only;
    None builds all of it.
    """
    parser = _Top(
        prog="skerry",
        description="A self-hosted gateway for personal agents.",
        epilog=f"{_EPILOG}\n{EXIT_CODES}",
    )
    parser.add_argument("--version", action="version", version=f"skerry {__version__}")
    parser.set_defaults(module=None, parser=parser)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", parser_class=Parser)
    parts = _parts()
    for entry in FEATURES:
        if entry.cli:
            parts[entry.command] = partial(
                feature, entry=entry, whole=name in {None, entry.command}
            )
    for part in (name,) if name in parts else parts:
        parts[part](commands.add_parser)
    parser.texts = {key: command.description or "" for key, command in commands.choices.items()}
    return parser


def _parts() -> dict[str | None, Callable[[Add], object]]:
    """Returns functions that add the commands, by name."""
    return {
        "gateway": _gateway,
        "status": _status,
        "open": _open,
        "completion": _completion,
    }


def _gateway(add: Add) -> None:
    add = group(add, "gateway", "run the gateway, or ask a running one")
    run = command(add, "run", "serve", "run the gateway until SIGTERM or Ctrl-C")
    run.add_argument(
        "--port", type=whole(0, 65_535), metavar="N", help="TCP port; 0 lets the system choose"
    )
    run.add_argument(
        "--bind", type=bind, metavar="ADDR", help="loopback, lan, or an address of this machine"
    )
    run.add_argument(
        "--strict-config",
        action="store_true",
        help="refuse to start when the configuration file is invalid",
    )
    run.add_argument("--verbose", action="store_true", help="log more, on stderr")
    _status(add)
    call = command(add, "call", "gateway", "send one request and print the answer")
    call.add_argument("method", metavar="METHOD", help="such as health or sessions.list")
    call.add_argument("--params", default=None, metavar="JSON", help="the parameters, an object")
    call.add_argument(
        "--expect-final", action="store_true", help="wait for the second answer of `agent`"
    )
    timeout(call, "seconds to wait (default 30; 600 with --expect-final; memory.sync a day)")
    output(reach(call))


def _open(add: Add) -> None:
    opened = reach(command(add, "open", "open", "open the page in a browser, or show its address"))
    opened.add_argument("--print", action="store_true", help="show the address, open nothing")


def _status(add: Add) -> None:
    text = "show the gateway's state, its page and its model"
    status = command(add, "status", "gateway", text)
    output(reach(status))


def _completion(add: Add) -> None:
    text = "print the completion script of a shell"
    parser = command(add, "completion", "completion", text)
    parser.add_argument("shell", choices=["bash", "zsh", "fish", "tcsh"])
    parser.epilog = 'bash: eval "$(skerry completion bash)"'
