"""Reads a command line with tree-sitter: the second parser besides shfmt."""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from skerry.features.exec.shell_words import (
    Reading,
    RefusedCommandError,
    Simple,
    checked,
    double_quoted,
    literal,
    redirection,
)

_ENDS: Final = frozenset({";", "\n"})
_JOINS: Final = frozenset({"|", "&&", "||"})
_RULES: Final = {
    "&": ("background", "& runs the command in the background"),
    "variable_assignment": ("assignment", "the command sets a variable"),
    "variable_assignments": ("assignment", "the command sets a variable"),
    "declaration_command": ("assignment", "the command sets a variable"),
    "heredoc_redirect": ("here-document", "the command has a here-document"),
    "herestring_redirect": ("here-document", "the command has a here-string"),
    "command_substitution": ("substitution", "the command has a command substitution"),
    "process_substitution": ("substitution", "the command has a process substitution"),
    "simple_expansion": ("expansion", "the command has an expansion"),
    "expansion": ("expansion", "the command has an expansion"),
    "arithmetic_expansion": ("expansion", "the command has an expansion"),
    "ansi_c_string": ("expansion", "the command has a $'...'"),
    "translated_string": ("expansion", 'the command has a $"..."'),
    "brace_expression": ("brace", "braces outside quotes produce several words"),
}


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def read(command: str) -> Reading:
    """Returns the simple commands of the command line.

    Raises:
        RefusedError: the line has other parts.
    """
    root = _parser().parse(command.encode()).root_node
    walk = _Walk()
    try:
        shape = tuple(walk.sequence(root.children))
    except RecursionError:
        raise RefusedCommandError("size", "the command is nested too deeply") from None
    if root.has_error:
        raise RefusedCommandError("syntax", "the command is not valid shell")
    return Reading(tuple(walk.commands), shape)


def _refused(node: Node) -> RefusedCommandError:
    if node.is_error or node.is_missing:
        return RefusedCommandError("syntax", "the command is not valid shell")
    reason = f"the command has a part that is no simple command: {node.type}"
    return RefusedCommandError(*_RULES.get(node.type, ("not-simple", reason)))


def _text(node: Node) -> str:
    return str(node.text or b"", "utf-8")


class _Walk:
    """Walks over statements; collects their commands."""

    def __init__(self) -> None:
        self.commands: list[Simple] = []

    def sequence(self, nodes: list[Node]) -> Iterator[str]:
        """Yields the shape of statements that `;` or newlines separate."""
        is_first = True
        for node in nodes:
            if node.type in _ENDS or node.type == "comment":
                continue
            if not is_first:
                yield ";"
            is_first = False
            yield from self._statement(node)

    def _statement(self, node: Node) -> Iterator[str]:
        match node.type:
            case "command":
                yield from self._command(node, ())
            case "list" | "pipeline":
                for child in node.children:
                    yield from self._joined(child)
            case "subshell" | "compound_statement":
                first, *inner, last = node.children
                if (first.type, last.type) not in {("(", ")"), ("{", "}")}:
                    raise _refused(node)
                yield first.type
                yield from self.sequence(inner)
                yield last.type
            case "redirected_statement":
                yield from self._redirected(node)
            case _:
                raise _refused(node)

    def _joined(self, node: Node) -> Iterator[str]:
        if node.type in _JOINS:
            yield node.type
        elif node.type not in {"\n", "comment"}:
            yield from self._statement(node)

    def _redirected(self, node: Node) -> Iterator[str]:
        body, *redirection_nodes = node.children
        words: list[str] = []
        redirections = [
            _redirection(redirection_node, words) for redirection_node in redirection_nodes
        ]
        if body.type == "command":
            yield from self._command(body, tuple(words))
        elif words:
            raise RefusedCommandError("syntax", "words follow a redirection of a group")
        else:
            yield from self._statement(body)
        yield from redirections

    def _command(self, node: Node, trailing_words: tuple[str, ...]) -> Iterator[str]:
        words: list[str] = []
        redirections: list[str] = []
        for child in node.children:
            match child.type:
                case "file_redirect":
                    redirections.append(_redirection(child, words))
                case "command_name":
                    words.extend(map(_word, child.children))
                case _:
                    words.append(_word(child))
        self.commands.append(Simple((*words, *trailing_words)))
        yield ""
        yield from redirections


def _word(node: Node) -> str:
    match node.type:
        case "concatenation":
            parts = node.children
            pairs = pairwise(parts)
            if any(first.end_byte != second.start_byte for first, second in pairs):
                raise RefusedCommandError("syntax", "a word has a gap")
            return "".join(_part(part, at_start=number == 0) for number, part in enumerate(parts))
        case _:
            return _part(node, at_start=True)


def _part(node: Node, *, at_start: bool) -> str:
    match node.type:
        case "word" | "number" | "{" | "}":
            if node.child_count:
                raise _refused(node.children[0])
            return literal(_text(node), at_start=at_start)
        case "raw_string":
            return checked(_text(node)[1:-1])
        case "string":
            for child in node.children:
                if child.type not in {'"', "string_content", "$"}:
                    raise _refused(child)
            return double_quoted(_text(node)[1:-1])
        case _:
            raise _refused(node)


def _redirection(node: Node, words: list[str]) -> str:
    """Returns the form of a redirection; words after its target belong to the command."""
    if node.type != "file_redirect":
        raise _refused(node)
    children = list(node.children)
    descriptor = ""
    if children and children[0].type == "file_descriptor":
        descriptor = _text(children.pop(0))
    if len(children) < 2:  # noqa: PLR2004 - an operator and its target
        raise RefusedCommandError(
            "redirection", "a redirection closes a descriptor or has no target"
        )
    operator, target, *extra_words = children
    words.extend(map(_word, extra_words))
    return redirection(descriptor, operator.type, _word(target))
