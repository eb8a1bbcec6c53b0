"""Parts shared by the parsers of commands: common options, and checks of values."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable

Add = Callable[..., ArgumentParser]
TOKEN_CHARACTERS = 4096
"""The longest token that is read from a file."""


def command(add: Add, name: str, module: str | None, text: str) -> ArgumentParser:
    """Returns the parser of a new command; `module` runs it, None has some beneath it."""
    parser = add(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(module=module, parser=parser)
    return parser


def reach(parser: ArgumentParser) -> ArgumentParser:
    """Lets the command name the gateway that it speaks to."""
    parser.add_argument("--url", help="the gateway's address (default: from the configuration)")
    parser.add_argument(
        "--token",
        type=token,
        help="its token; @FILE reads it from a file, so that no list of processes shows it"
        " (default: SKERRY_GATEWAY_TOKEN, configuration)",
    )
    return parser


def session(parser: ArgumentParser) -> ArgumentParser:
    """Lets the command name a conversation."""
    parser.add_argument("--session", default="main", metavar="KEY", help="which conversation")
    parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
    return parser


def timeout(parser: ArgumentParser, text: str) -> None:
    """Lets the command wait for so long."""
    parser.add_argument("--timeout", type=seconds, metavar="S", help=text)


def output(parser: ArgumentParser) -> ArgumentParser:
    """Lets the command print for scripts."""
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    return parser


def token(text: str) -> str:
    """Returns a token, of `@FILE` the first line of the file."""
    if not text.startswith("@"):
        return text
    try:
        with open(text[1:], encoding="utf-8") as file:  # noqa: PTH123 - help does without pathlib
            found = file.readline(TOKEN_CHARACTERS).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ArgumentTypeError(f"{text[1:]!r} cannot be read: {reason}") from None
    if not found:
        raise ArgumentTypeError(f"{text[1:]!r} begins with an empty line")
    return found


def port(text: str) -> int:
    """Returns a TCP port; 0 lets the system choose."""
    if not (text.isdecimal() and int(text) <= 65_535):  # noqa: PLR2004 - the highest TCP port
        raise ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def lines(text: str) -> int:
    """Returns how many lines of the log, as many as a gateway gives."""
    if not (text.isdecimal() and 0 < int(text) <= 5000):  # noqa: PLR2004 - as many as a gateway gives
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to 5000")
    return int(text)


def bind(text: str) -> str:
    """Returns where to listen: `loopback`, `lan` or an address."""
    from ipaddress import ip_address  # noqa: PLC0415 - help does without it

    if text not in {"loopback", "lan"}:
        try:
            ip_address(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is not loopback, lan or an address") from None
    return text


def limit(text: str) -> int:
    """Returns how many rows, as many as a method gives."""
    if not (text.isdecimal() and 1 <= int(text) <= 1000):  # noqa: PLR2004 - the method's limit
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)


def hits(text: str) -> int:
    """Returns how many hits, as many as a search gives."""
    if not (text.isdecimal() and 1 <= int(text) <= 50):  # noqa: PLR2004 - as `store.search` has it
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to 50")
    return int(text)


def seconds(text: str) -> float:
    """Returns a time of at most a day."""
    try:
        given = float(text)
    except ValueError:
        given = 0.0
    if not 0 < given <= 86_400:  # noqa: PLR2004 - a day
        raise ArgumentTypeError(f"{text!r} is not a number of seconds above 0, up to 86400")
    return given


def days(text: str) -> int:
    """Returns a number of days of at most a year, as the method takes them."""
    if not (text.isdecimal() and 1 <= int(text) <= 366):  # noqa: PLR2004 - the method's limit
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to 366")
    return int(text)
