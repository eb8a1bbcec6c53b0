"""Parts of the parsers of commands: common options, and checks of values."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable

Add = Callable[..., ArgumentParser]
THINKING = ("off", "minimal", "low", "medium", "high", "xhigh")
"""Levels of `model.thinking`, repeated here so that help needs no import."""
TOKEN_CHARACTERS = 4096
"""Limit of a token that is read from a file."""


def command(add: Add, name: str, module: str | None, text: str) -> ArgumentParser:
    """Returns the parser of a new command; `module` runs it with its name as the action."""
    parser = add(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(module=module, action=name, parser=parser)
    return parser


def group(add: Add, name: str, text: str) -> Add:
    """Adds a command with subcommands; returns the function that adds them."""
    return subcommands(command(add, name, None, text))


def subcommands(parser: ArgumentParser) -> Add:
    """Returns the function that adds subcommands to a command, which several features may call."""
    add: Add | None = parser.get_default("add_subcommand")
    if add is None:
        add = parser.add_subparsers(metavar="COMMAND", title="commands").add_parser
        parser.set_defaults(add_subcommand=add)
    return add


def reach(parser: ArgumentParser) -> ArgumentParser:
    """Adds the options for the address and token of the gateway."""
    parser.add_argument("--url", help="the gateway's address (default: from the configuration)")
    parser.add_argument(
        "--token",
        type=token,
        help="its token; @FILE reads it from a file, so that no list of processes shows it"
        " (default: SKERRY_GATEWAY_TOKEN, configuration)",
    )
    return parser


def session(parser: ArgumentParser) -> ArgumentParser:
    """Adds the options for the conversation."""
    parser.add_argument(
        "--session",
        type=filled,
        default="main",
        metavar="KEY",
        help="conversation (default: main)",
    )
    parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
    return parser


def message(parser: ArgumentParser, image: str) -> None:
    """Adds the options of a message: images, with the help text `image`, and reasoning effort."""
    parser.add_argument("--image", action="append", default=[], metavar="FILE", help=image)
    parser.add_argument("--thinking", choices=THINKING, help="reasoning effort of the model")


def timeout(parser: ArgumentParser, text: str) -> None:
    """Adds the option for the time limit."""
    parser.add_argument("--timeout", type=seconds, metavar="S", help=text)


def output(parser: ArgumentParser) -> ArgumentParser:
    """Adds the option for JSON output."""
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    return parser


def token(text: str) -> str:
    """Returns a token; for `@FILE` the first line of the file."""
    if not text.startswith("@"):
        return text
    try:
        with open(text[1:], encoding="utf-8") as file:  # noqa: PTH123 - help does without pathlib
            first = file.readline(TOKEN_CHARACTERS).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ArgumentTypeError(f"{text[1:]!r} cannot be read: {reason}") from None
    if not first:
        raise ArgumentTypeError(f"{text[1:]!r} begins with an empty line")
    return first


def filled(text: str) -> str:
    """Returns a text that is not empty."""
    if not text.strip():
        raise ArgumentTypeError("it is empty")
    return text


def whole(least: int, greatest: int) -> Callable[[str], int]:
    """Returns the check of an option for a whole number from `least` to `greatest`."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and least <= int(text) <= greatest):
            raise ArgumentTypeError(f"{text!r} is not a number from {least} to {greatest}")
        return int(text)

    return parse


hits = whole(1, 50)
"""Limit of a search, that of `store.search`."""
days = whole(1, 366)


def bind(text: str) -> str:
    """Returns an address to listen on: `loopback`, `lan` or an IP address."""
    from ipaddress import ip_address  # noqa: PLC0415 - for this option alone; help does without it

    if text not in {"loopback", "lan"}:
        try:
            ip_address(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is not loopback, lan or an address") from None
    return text


def seconds(text: str) -> float:
    """Returns a time in seconds of at most a day."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 86_400:  # noqa: PLR2004 - a day
        raise ArgumentTypeError(f"{text!r} is not a number of seconds above 0, up to 86400")
    return number
