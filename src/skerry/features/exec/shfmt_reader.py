"""Reads a command line with shfmt, the parser that follows bash."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

import msgspec

from skerry.features.exec.shell_words import (
    Reading,
    RefusedCommandError,
    Simple,
    checked,
    double_quoted,
    literal,
    redirection,
)
from skerry.infra.process import ProcessError, Program, run

SECONDS: Final = 10.0
MAX_OUTPUT: Final = 16_000_000
"""Maximum size of a syntax tree in bytes; 2,000 words have a tree of 2 MB."""
_POSITIONS: Final = frozenset({"Type", "Pos", "End", "Position", "Semicolon", "Comments"})
_JOINS: Final = frozenset({"|", "&&", "||"})
_decode: Final = msgspec.json.Decoder().decode

Node = Mapping[str, Any]


@cache
def program() -> str:
    """Returns the path of shfmt, which is installed with this program.

    Raises:
        RefusedError: shfmt is not installed.
    """
    path = Path(sys.executable).with_name("shfmt")
    if path.is_file():
        return str(path)
    try:
        files = distribution("shfmt-py").files or ()
    except PackageNotFoundError:
        files = ()
    for file in files:
        if file.stem == "shfmt" and file.parent.name in {"bin", "Scripts"}:
            return str(Path(str(file.locate())).resolve())
    raise RefusedCommandError("no-parser", "shfmt is not installed: install shfmt-py")


async def read(command: str) -> Reading:
    """Returns the simple commands of the command line.

    Raises:
        RefusedError: the line has other parts, or shfmt failed.
    """
    words = [program(), "--to-json", "-ln", "bash"]
    filtered = Program(words, {"GOMAXPROCS": "1"}, filters=True)
    try:
        finished = await run(
            filtered, seconds=SECONDS, stdin=command.encode(), max_bytes=MAX_OUTPUT
        )
    except ProcessError as error:
        raise RefusedCommandError("no-parser", str(error)) from error
    if finished.code:
        reason = finished.err.partition(": ")[2].strip()[:200] or "shfmt cannot read the command"
        raise RefusedCommandError("syntax", reason)
    try:
        tree = _decode(finished.out)
        return _reading(tree)
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RefusedCommandError("no-parser", "shfmt returned an unknown form of tree") from error


def _reading(tree: Node) -> Reading:
    commands: list[Simple] = []
    shape = tuple(_Walk(commands).statements(_only(tree, "Stmts", "Last")["Stmts"]))
    return Reading(tuple(commands), shape)


def _only(node: Node, *keys: str) -> Node:
    """Returns the node. Raises `RefusedCommandError` when it has other keys."""
    for key, value in node.items():
        if key not in _POSITIONS and key not in keys and value:
            raise _refused(key)
    return node


_RULES: Final = {
    "Background": ("background", "& runs the command in the background"),
    "Assigns": ("assignment", "the command sets a variable"),
    "Negated": ("not-simple", "! inverts the result"),
    "Hdoc": ("here-document", "the command has a here-document"),
    "Dollar": ("expansion", "the command has a $'...' or $\"...\""),
}


def _refused(kind: str) -> RefusedCommandError:
    rule, reason = _RULES.get(
        kind, ("not-simple", f"the command has a part that is no simple command: {kind}")
    )
    return RefusedCommandError(rule, reason)


class _Walk:
    """Walks over statements; collects their commands."""

    def __init__(self, commands: list[Simple]) -> None:
        self._commands = commands

    def statements(self, nodes: Iterable[Node]) -> Iterator[str]:
        """Yields the shape of statements in order."""
        for number, node in enumerate(nodes):
            if number:
                yield ";"
            yield from self._statement(node)

    def _statement(self, node: Node, prefix: tuple[str, ...] = ()) -> Iterator[str]:
        _only(node, "Cmd", "Redirs")
        command = node.get("Cmd")
        if command is None:
            raise RefusedCommandError("not-simple", "a redirection has no command")
        match command["Type"]:
            case "CallExpr":
                words = _only(command, "Args")["Args"]
                self._commands.append(Simple((*prefix, *map(_word, words))))
                yield ""
            case "BinaryCmd" if command["Op"] in _JOINS and not (prefix and command["Op"] != "|"):
                _only(command, "OpPos", "Op", "X", "Y")
                yield from self._statement(command["X"], prefix)
                yield command["Op"]
                yield from self._statement(command["Y"])
            case "TimeClause" if not prefix:
                _only(command, "Time", "PosixFormat", "Stmt")
                flags = ("-p",) if command.get("PosixFormat") else ()
                yield from self._statement(command["Stmt"], ("time", *flags))
            case "Subshell" | "Block" as kind if not prefix:
                _only(command, "Lparen", "Rparen", "Lbrace", "Rbrace", "Stmts")
                yield "(" if kind == "Subshell" else "{"
                yield from self.statements(command["Stmts"])
                yield ")" if kind == "Subshell" else "}"
            case "DeclClause":
                raise _refused("Assigns")
            case kind:
                raise _refused(str(kind))
        for node_ in node.get("Redirs", ()):
            yield _redirection(node_)


def _word(node: Node) -> str:
    _only(node, "Parts")
    parts = node["Parts"]
    return "".join(_part(part, at_start=number == 0) for number, part in enumerate(parts))


def _part(node: Node, *, at_start: bool) -> str:
    match node["Type"]:
        case "Lit":
            return literal(_lit(node), at_start=at_start)
        case "SglQuoted":
            return checked(str(_only(node, "Left", "Right", "Value").get("Value", "")))
        case "DblQuoted":
            _only(node, "Left", "Right", "Parts")
            return "".join(double_quoted(_lit(part)) for part in node.get("Parts", ()))
        case "ExtGlob":
            raise RefusedCommandError("glob", "the command has a pattern of file names")
        case "CmdSubst" | "ProcSubst":
            raise RefusedCommandError("substitution", "the command has a command substitution")
        case kind:
            raise RefusedCommandError("expansion", f"the command has an expansion: {kind}")


def _lit(node: Node) -> str:
    if node["Type"] != "Lit":
        rule = "substitution" if node["Type"] == "CmdSubst" else "expansion"
        raise RefusedCommandError(rule, f"double quotes contain an expansion: {node['Type']}")
    _only(node, "ValuePos", "ValueEnd", "Value")
    return str(node["Value"])


def _redirection(node: Node) -> str:
    _only(node, "OpPos", "Op", "N", "Word")
    descriptor = node["N"]["Value"] if node.get("N") else ""
    return redirection(descriptor, node["Op"], _word(node["Word"]))
