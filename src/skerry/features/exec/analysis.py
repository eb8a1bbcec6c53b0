"""Reads a command line as the simple commands that a shell would run, or refuses the line.

Two parsers, shfmt and tree-sitter, must agree. A line that one of them does not read as plain
commands with literal words is refused with the name of a rule, and a person has to decide.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from skerry.features.exec import shfmt_reader
from skerry.features.exec.late import tree_reader
from skerry.features.exec.shell_words import Reading, RefusedCommandError, check_characters

MAX_BYTES: Final = 64 * 1024
"""Length of a command line, in bytes of UTF-8, above which it is refused."""
TREE_FIRST_CHARS: Final = 4096
"""Length in characters up to which tree-sitter, the cheaper parser, reads first. It takes seconds
for tens of kilobytes of here-documents, so it reads longer lines only after shfmt accepted them."""
MAX_WORDS: Final = 5000
"""Maximum number of words of a command line; parsing more takes seconds."""


async def read(
    command: str, second: Callable[[str], Awaitable[Reading]] = shfmt_reader.read
) -> Reading:
    """Returns the simple commands of a command line, as both parsers read them.

    Raises:
        RefusedError: the line has other parts than simple commands with literal words.
    """
    if len(command) >= MAX_BYTES or len(command.encode(errors="replace")) >= MAX_BYTES:
        raise RefusedCommandError("size", f"the command is longer than {MAX_BYTES // 1024} KiB")
    check_characters(command)
    if not command.strip():
        raise RefusedCommandError("empty", "there is no command")
    if len(command) > TREE_FIRST_CHARS:
        authority = await second(command)
        opinion = tree_reader.read(command)
    else:
        opinion = tree_reader.read(command)
        authority = await second(command)
    if sum(len(simple.argv) for simple in authority.commands) > MAX_WORDS:
        raise RefusedCommandError("size", f"the command has more than {MAX_WORDS} words")
    if opinion != authority:
        raise RefusedCommandError("parsers-differ", "the two parsers read the command differently")
    return authority
