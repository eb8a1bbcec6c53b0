"""`skerry chat`: talk to an agent in the terminal."""

import os
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from queue import SimpleQueue
from typing import Final
from uuid import uuid4

from anyio.from_thread import BlockingPortal, start_blocking_portal

from skerry.cli.conversation import (
    Connection,
    Conversation,
    Ending,
    Opening,
    Text,
    Update,
    Withdrawn,
)
from skerry.cli.images import attachments
from skerry.cli.render import model_line, notice, one_line, plain, show, styled
from skerry.client.discover import find

PROMPT: Final = "> "
LEAVE: Final = frozenset({"/exit", "/quit"})
EARLIER_CHARACTERS: Final = 300
"""How much of an earlier message is shown."""


class _LeaveError(Exception):
    """The person wants to go."""


@dataclass(frozen=True, slots=True)
class _Interrupt:
    """Ctrl-C was pressed."""


_Updates = SimpleQueue[Update | _Interrupt | None]
"""What the terminal shows next; None ends an answer."""


def run(arguments: Namespace) -> int:
    """Run `skerry chat`; return the exit code."""
    address = find(os.environ, url=arguments.url, token=arguments.token)
    updates: _Updates = SimpleQueue()
    images = attachments(arguments.image)
    conversation = Conversation(
        address, arguments.session, updates.put, arguments.agent, arguments.thinking
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(conversation) as conversation,
    ):
        opening = portal.call(conversation.open)
        terminal = Terminal(portal, conversation, updates, opening.commands, images)
        if terminal.interactive:
            _greet(address.url, conversation.session, opening)
        with suppress(_LeaveError):
            if arguments.message:
                terminal.exchange(arguments.message)
            for line in terminal.lines():
                terminal.exchange(line)
    return 1 if terminal.failed and not terminal.interactive else 0


@dataclass(slots=True)
class Terminal:
    """Reads what a person writes and prints the answers, in the main thread.

    The connection lives in the portal's thread, so that it stays alive while a line is written, and
    so that Ctrl-C arrives here, whatever happens there.
    """

    portal: BlockingPortal
    conversation: Conversation
    updates: _Updates
    commands: Sequence[str] = ()
    """What Tab completes at the beginning of a line."""
    images: Sequence[Mapping[str, str]] = ()
    """They go with the next message."""
    interactive: bool = field(
        default_factory=lambda: sys.stdin.isatty() and sys.stdout.isatty(), init=False
    )
    failed: bool = field(default=False, init=False)
    _interrupted: bool = field(default=False, init=False)

    def lines(self) -> Iterator[str]:
        """Give each line that is not blank, until the end of the input.

        Raises:
            _LeaveError: Ctrl-C twice in a row.
        """
        if not self.interactive:
            piped = takewhile(lambda line: line not in LEAVE, map(str.strip, sys.stdin))
            yield from filter(None, piped)
            return
        _complete(self.commands)
        while True:
            self._drain()
            try:
                line = input(PROMPT).strip()
            except EOFError:
                show()
                return
            except KeyboardInterrupt:
                show()
                self._interrupt("Ctrl-C again, or Ctrl-D, leaves.")
                continue
            self._interrupted = False
            if line in LEAVE:
                return
            if line:
                yield line

    def exchange(self, text: str) -> None:
        """Send a message and print the answer as it comes. Ctrl-C stops it.

        Raises:
            ClientError: the gateway refused.
            _LeaveError: a second Ctrl-C.
            KeyboardInterrupt: Ctrl-C where nobody can go on.
        """
        key = str(uuid4())
        images, self.images = self.images, ()
        saying = self.portal.start_task_soon(self.conversation.say, text, key, images)
        saying.add_done_callback(lambda _: self.updates.put(None))
        try:
            with _interrupts_put_into(self.updates):
                while (update := self.updates.get()) is not None:
                    if isinstance(update, _Interrupt):
                        self._interrupt()
                        self.portal.start_task_soon(self.conversation.stop, key)
                    else:
                        self._print(update)
        finally:
            saying.cancel()
        self._finish(saying.result())
        if self._interrupted and not self.interactive:
            raise KeyboardInterrupt

    def _interrupt(self, hint: str = "") -> None:
        if self._interrupted:
            raise _LeaveError
        self._interrupted = True
        if hint:
            notice(styled(hint, "dim", sys.stderr))

    def _finish(self, ending: Ending) -> None:
        show()
        if ending.state == "error":
            self.failed = True
            notice(f"{styled('error:', 'red', sys.stderr)} {one_line(ending.message)}")
        elif ending.state == "aborted":
            notice(styled(f"stopped. {ending.message}".rstrip(), "dim", sys.stderr))
        for text in ending.notices:
            notice(styled(f"note: {one_line(text)}", "dim", sys.stderr))
        if self.interactive:
            show()

    def _drain(self) -> None:
        while not self.updates.empty():
            update = self.updates.get()
            if isinstance(update, Text | Connection):
                self._print(update)

    def _print(self, update: Update) -> None:
        match update:
            case Text(added):
                sys.stdout.write(plain(added))
                sys.stdout.flush()
            case Withdrawn():
                sys.stdout.write("\n")
                sys.stdout.flush()
                words = "(its model failed; another one answers)"
                notice(styled(words, "dim", sys.stderr))
            case Connection(lost):
                text = f"{lost}; reconnecting ..." if lost else "connected again."
                notice(styled(text, "yellow", sys.stderr))


def _complete(commands: Sequence[str]) -> None:
    """Give `input` its line editing where this Python has it, with Tab for `/` commands."""
    try:
        import readline  # noqa: PLC0415 - not every Python has it
    except ImportError:
        return
    words = sorted({*commands, *LEAVE})

    def completed(text: str, number: int) -> str | None:
        begun = text if readline.get_begidx() == 0 and text.startswith("/") else None
        found = [] if begun is None else [one for one in words if one.startswith(begun)]
        return f"{found[number]} " if number < len(found) else None

    readline.set_completer_delims(" ")
    readline.set_completer(completed)
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")


@contextmanager
def _interrupts_put_into(updates: _Updates) -> Iterator[None]:
    """Take Ctrl-C as one update among the others, not as an exception that may come anywhere."""
    before = signal.signal(signal.SIGINT, lambda *_: updates.put(_Interrupt()))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _greet(url: str, session: str, opening: Opening) -> None:
    show(f"{styled('Skerry', 'bold')}  {url}  session {session}")
    show(f"Model: {model_line(opening.model)}")
    if not opening.messages:
        show("Nothing was said here yet. Write a message and press Enter.")
    for role, text in opening.messages:
        mark = PROMPT if role == "user" else ""
        show(styled(mark + one_line(text)[:EARLIER_CHARACTERS], "dim"))
    # Sent at once, a line would stand in the middle of the text that it is about to change.
    keys = "A line typed during an answer goes out after it. Ctrl-C stops an answer, Ctrl-D leaves."
    if opening.commands:
        keys = f"/ and Tab list commands. {keys}"
    show(styled(keys, "dim"))
    show()
