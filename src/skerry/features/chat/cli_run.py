"""`skerry chat`: a conversation with an agent in the terminal."""

import os
import signal
import sys
from argparse import Namespace
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from queue import SimpleQueue
from typing import Final
from uuid import uuid4

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from skerry.cli.images import attachments
from skerry.cli.render import model_line, notice, one_line, plain, show, styled
from skerry.client.discover import find
from skerry.features.chat.conversation import (
    ClientConversation,
    ConnectionChange,
    Ending,
    FirstScreen,
    JoinedRun,
    Text,
    Update,
    Withdrawn,
)
from skerry.infra.supervise import in_background

PROMPT: Final = "> "
EXIT_COMMANDS: Final = frozenset({"/exit", "/quit"})
EARLIER_CHARACTERS: Final = 300
"""Maximum length of a displayed earlier message, in characters."""
_MAX_LINE_BYTES: Final = 4096
"""Bytes of one read; terminals of Linux and macOS return at most this many."""


class _ExitError(Exception):
    """The person exits the chat."""


@dataclass(frozen=True, slots=True)
class _Interrupt:
    """Ctrl-C was pressed."""


@dataclass(frozen=True, slots=True)
class _Typed:
    """A line typed during an answer; None is the end of the input."""

    line: str | None


@dataclass(frozen=True, slots=True)
class _AnswerUpdate:
    """An update of the answer to the message with this key."""

    key: str
    update: Update


@dataclass(frozen=True, slots=True)
class _Ended:
    """The answer to the message with this key has ended."""

    key: str


_Updates = SimpleQueue[Update | _Interrupt | _Typed | _AnswerUpdate | _Ended]
"""Queue of the events that the terminal handles."""


@dataclass(slots=True, eq=False)
class _Turn:
    """A message that was sent, until its answer has ended."""

    pending: Future[Ending]
    waiting: list[Update] = field(default_factory=list[Update])
    """Updates that are printed when the previous answers have ended."""
    shared: bool = False
    """True when another printed answer also answers this message."""


def run(arguments: Namespace) -> int:
    """Runs `skerry chat`; returns the exit code."""
    address = find(os.environ, url=arguments.url, token=arguments.token)
    updates: _Updates = SimpleQueue()
    images = attachments(arguments.image)
    conversation = ClientConversation(
        address, arguments.session, updates.put, arguments.agent, arguments.thinking
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(conversation) as conversation,
    ):
        opening = portal.call(conversation.open)
        terminal = ChatTerminal(portal, conversation, updates, opening.commands, images)
        if terminal.interactive:
            _greet(address.url, conversation.session, opening)
        with suppress(_ExitError):
            if arguments.message:
                terminal.exchange(arguments.message)
            for line in terminal.lines():
                terminal.exchange(line)
    return 1 if terminal.failed and not terminal.interactive else 0


@dataclass(slots=True)
class ChatTerminal:
    """Reads a person's lines and prints the answers, in the main thread.

    The connection lives in the portal's thread, so that it stays alive while the person types, and
    so that Ctrl-C arrives in the main thread.
    """

    portal: BlockingPortal
    conversation: ClientConversation
    updates: _Updates
    commands: Sequence[str] = ()
    """Completions for Tab at the beginning of a line."""
    images: Sequence[Mapping[str, str]] = ()
    """Images of the next message."""
    interactive: bool = field(
        default_factory=lambda: sys.stdin.isatty() and sys.stdout.isatty(), init=False
    )
    failed: bool = field(default=False, init=False)
    _interrupted: bool = field(default=False, init=False)
    _turns: dict[str, _Turn] = field(default_factory=dict[str, _Turn], init=False)
    """Turns by their keys."""
    _live: str | None = field(default=None, init=False)
    """First turn with a separate answer, which is printed as it arrives."""
    _runs: set[str] = field(default_factory=set[str], init=False)
    """Runs whose answers were or will be printed since the last prompt."""
    _typed: deque[str] = field(default_factory=deque[str], init=False)
    """Lines typed after the last answer ended."""
    _at_end: bool = field(default=False, init=False)
    _in_line: bool = field(default=False, init=False)
    """True when the last line on the screen has no line break."""

    def lines(self) -> Iterator[str]:
        """Yields each line that is not blank, until the end of the input.

        Raises:
            _LeaveError: Ctrl-C twice in a row.
        """
        if not self.interactive:
            piped = takewhile(lambda line: line not in EXIT_COMMANDS, map(str.strip, sys.stdin))
            yield from filter(None, piped)
            return
        _complete(self.commands)
        while True:
            self._drain()
            try:
                line = self._next()
            except EOFError:
                show()
                return
            except KeyboardInterrupt:
                show()
                self._interrupt("Ctrl-C again, or Ctrl-D, exits.")
                continue
            self._interrupted = False
            if line in EXIT_COMMANDS:
                return
            if line:
                yield line

    def exchange(self, text: str) -> None:
        """Sends a message and prints the answer as it arrives. Ctrl-C stops it.

        A line typed during the answer is sent at once. Its answer is printed after the present one
        has ended, or has to end: a command may stop another message's run.

        Raises:
            ClientError: the gateway refused.
            _LeaveError: a second Ctrl-C, or a line with an exit command.
            KeyboardInterrupt: Ctrl-C without a terminal.
        """
        self._runs.clear()
        try:
            with _interrupts_put_into(self.updates), self._reading():
                self._live = self._say(text)
                while self._turns:
                    self._take(self.updates.get())
        finally:
            for turn in self._turns.values():
                turn.pending.cancel()
            self._turns.clear()
        if self._interrupted and not self.interactive:
            raise KeyboardInterrupt

    def _next(self) -> str:
        if self._typed:
            return self._typed.popleft()
        if self._at_end:
            raise EOFError
        return input(PROMPT).strip()

    def _reading(self) -> AbstractContextManager[object]:
        """Reads typed lines during the block; afterwards the prompt reads them."""
        if not self.interactive or self._at_end:
            return nullcontext()
        reading = partial(_read_lines, sys.stdin.fileno(), self.updates)
        return self.portal.wrap_async_context_manager(in_background(reading))

    def _say(self, text: str) -> str:
        """Starts to send a message; returns its key."""
        key, updates = str(uuid4()), self.updates
        images, self.images = self.images, ()
        pending = self.portal.start_task_soon(
            self.conversation.say,
            text,
            key,
            images,
            lambda update: updates.put(_AnswerUpdate(key, update)),
        )
        self._turns[key] = _Turn(pending)
        pending.add_done_callback(lambda _: updates.put(_Ended(key)))
        return key

    def _take(self, update: Update | _Interrupt | _Typed | _AnswerUpdate | _Ended) -> None:
        match update:
            case _Interrupt():
                self._interrupt()
                key = self._live or next(iter(self._turns))
                self.portal.start_task_soon(self.conversation.stop, key)
            case _Typed(line):
                self._take_typed(line)
            case _AnswerUpdate(key, JoinedRun(host)):
                own_runs = {self.conversation.run(turn) for turn in self._turns if turn != key}
                self._turns[key].shared |= host in own_runs | self._runs
            case _AnswerUpdate(key, heard) if key == self._live:
                self._print(heard)
            case _AnswerUpdate(key, heard):
                self._turns[key].waiting.append(heard)
            case _Ended(key):
                self._end(key)
            case _:
                self._print(update)
        live = next((key for key, turn in self._turns.items() if not turn.shared), None)
        if live is not None and live != self._live:
            self._interrupted = False
            self._show(self._turns[live])
        self._live = live

    def _take_typed(self, line: str | None) -> None:
        if line is None:
            self._at_end = True
            return
        self._in_line = False  # the terminal has echoed the line and its line break
        text = line.strip()
        if text in EXIT_COMMANDS:
            raise _ExitError
        if text:
            notice(styled(f"(sent: {one_line(text)})", "dim", sys.stderr))
            self._say(text)

    def _end(self, key: str) -> None:
        """Finishes an answer; prints one that ended before its turn at once."""
        turn = self._turns.pop(key)
        ending = turn.pending.result()
        if turn.shared:
            return
        self._runs.add(self.conversation.run(key))
        if key != self._live:
            self._show(turn)
        self._finish(ending)

    def _show(self, turn: _Turn) -> None:
        if self._in_line:
            show()
            self._in_line = False
        for update in turn.waiting:
            self._print(update)
        turn.waiting.clear()

    def _interrupt(self, hint: str = "") -> None:
        if self._interrupted:
            raise _ExitError
        self._interrupted = True
        if hint:
            notice(styled(hint, "dim", sys.stderr))

    def _finish(self, ending: Ending) -> None:
        show()
        self._in_line = False
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
            match self.updates.get():
                case _Typed(None):
                    self._at_end = True
                case _Typed(str(line)):
                    self._typed.append(line.strip())
                case ConnectionChange() as update:
                    self._print(update)

    def _print(self, update: Update) -> None:
        match update:
            case Text(added):
                sys.stdout.write(plain(added))
                sys.stdout.flush()
                self._in_line = not added.endswith("\n") if added else self._in_line
            case Withdrawn(why):
                sys.stdout.write("\n")
                sys.stdout.flush()
                notice(styled(f"({why})", "dim", sys.stderr))
                self._in_line = False
            case ConnectionChange(reason):
                text = f"{reason}; reconnecting ..." if reason else "connected again."
                notice(styled(text, "yellow", sys.stderr))
            case JoinedRun():
                pass  # the answer to another message contains it


async def _read_lines(descriptor: int, updates: _Updates) -> None:
    """Reads typed lines; the terminal echoes them and returns whole lines.

    Pasted text arrives as several lines at once.
    """
    while True:
        await anyio.wait_readable(descriptor)
        try:
            data = os.read(descriptor, _MAX_LINE_BYTES)
        except OSError:  # the terminal was closed
            data = b""
        for line in data.decode(errors="replace").splitlines():
            updates.put(_Typed(line))
        if not data:
            updates.put(_Typed(None))
            return


def _complete(commands: Sequence[str]) -> None:
    """Enables line editing where this Python supports it, with Tab for `/` commands."""
    try:
        import readline  # noqa: PLC0415 - not every Python has it
    except ImportError:
        return
    words = sorted({*commands, *EXIT_COMMANDS})

    def completed(text: str, number: int) -> str | None:
        begun = text if readline.get_begidx() == 0 and text.startswith("/") else None
        matches = [] if begun is None else [word for word in words if word.startswith(begun)]
        return f"{matches[number]} " if number < len(matches) else None

    readline.set_completer_delims(" ")
    readline.set_completer(completed)
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")


@contextmanager
def _interrupts_put_into(updates: _Updates) -> Iterator[None]:
    """Turns Ctrl-C into an update in the queue, instead of an exception at any point."""
    before = signal.signal(signal.SIGINT, lambda *_: updates.put(_Interrupt()))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _greet(url: str, session: str, opening: FirstScreen) -> None:
    show(f"{styled('Skerry', 'bold')}  {url}  session {session}")
    show(f"Model: {model_line(opening.model)}")
    if not opening.messages:
        show("No messages yet. Write a message and press Enter.")
    for role, text in opening.messages:
        mark = PROMPT if role == "user" else ""
        show(styled(mark + one_line(text)[:EARLIER_CHARACTERS], "dim"))
    keys = "A line typed during an answer is sent at once. Ctrl-C stops an answer, Ctrl-D exits."
    if opening.commands:
        keys = f"/ and Tab list commands. {keys}"
    show(styled(keys, "dim"))
    show()
