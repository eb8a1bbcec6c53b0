"""The chat as a person has it, in a terminal, and as a script has it, through pipes."""

import os
import pty
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import Process

from tests.support.fake_gateway import Exchange, FakeGateway

from .conftest import Command


async def echo(exchange: Exchange) -> None:
    await exchange.reply({"status": "started"})
    text = f"You said {exchange.params['message']}."
    await exchange.chat("delta", text[:5])
    await exchange.chat("final", text)


async def test_through_a_pipe_each_line_is_a_message_and_stdout_has_only_the_answers(
    gateway: FakeGateway, command: Command
) -> None:
    gateway.methods["chat.send"] = echo
    completed = await command("chat", "--message", "zero", stdin=b"one\n\n  \ntwo\n")
    assert (completed.returncode, completed.stderr) == (0, b"")
    assert completed.stdout == b"You said zero.\nYou said one.\nYou said two.\n"


@pytest.mark.parametrize("leave", [b"/exit", b"/quit"])
async def test_through_a_pipe_one_leaves_as_at_the_prompt(
    gateway: FakeGateway, command: Command, leave: bytes
) -> None:
    gateway.methods["chat.send"] = echo
    completed = await command("chat", stdin=b"one\n%b\ntwo\n" % leave)
    assert (completed.returncode, completed.stdout) == (0, b"You said one.\n")


async def test_an_answer_cannot_steer_the_terminal(gateway: FakeGateway, command: Command) -> None:
    async def send(exchange: Exchange) -> None:
        await exchange.reply({"status": "started"})
        await exchange.chat("final", "\x1b]0;owned\x07 \x9b2J ok\r")

    gateway.methods["chat.send"] = send
    assert (await command("chat", stdin=b"hi\n")).stdout == b"]0;owned 2J ok\n"


async def test_a_script_learns_of_an_error_by_the_exit_code(
    gateway: FakeGateway, command: Command
) -> None:
    async def send(exchange: Exchange) -> None:
        await exchange.reply({"status": "started"})
        await exchange.chat("error", errorMessage="no\nmodel")

    gateway.methods["chat.send"] = send
    completed = await command("chat", stdin=b"hi\n")
    assert (completed.returncode, completed.stderr) == (1, b"error: no model\n")


async def test_without_a_gateway_it_says_how_to_start_one(
    command: Command, environ: dict[str, str]
) -> None:
    environ["SKERRY_GATEWAY_PORT"] = "1"
    completed = await command("chat", stdin=b"hi\n")
    assert completed.returncode == 1
    assert b"Try: Start it with `skerry gateway run`" in completed.stderr
    assert b"Help: skerry chat --help" in completed.stderr


@dataclass
class ChatTerminal:
    """A pseudo-terminal with `skerry chat` in it."""

    descriptor: int
    process: Process
    seen: str = ""

    async def expect(self, pattern: str) -> str:
        """Reads until the pattern has come; returns what came before and with it."""
        with anyio.move_on_after(20), suppress(OSError):  # EIO: the other side has gone
            while not re.search(pattern, self.seen):
                await anyio.wait_readable(self.descriptor)
                data = os.read(self.descriptor, 4096).decode()
                self.seen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", data).replace("\r", "")
        match = re.search(pattern, self.seen)
        assert match, f"{pattern!r} did not come, but {self.seen!r}"
        text, self.seen = self.seen[: match.end()], self.seen[match.end() :]
        return text

    async def press_ctrl_c(self) -> None:
        """Type it while the process waits for input: readline misses it in the moment before."""
        while not self._sleeps():
            await anyio.lowlevel.checkpoint()
        self.type("\x03")

    def _sleeps(self) -> bool:
        status = Path(f"/proc/{self.process.pid}/stat").read_text()
        return status.rpartition(")")[2].split()[0] == "S"

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    async def exit_code(self) -> int:
        with anyio.fail_after(60):
            return await self.process.wait()


@asynccontextmanager
async def chatting(environ: dict[str, str], *arguments: str) -> AsyncIterator[ChatTerminal]:
    # setsid --ctty makes the terminal the one whose Ctrl-C reaches the process.
    command = ["setsid", "--ctty", sys.executable, "-m", "skerry", "chat", *arguments]
    ours, theirs = pty.openpty()
    async with await anyio.open_process(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ
    ) as process:
        os.close(theirs)
        try:
            yield ChatTerminal(ours, process)
        finally:
            if process.returncode is None:
                process.kill()
            os.close(ours)


CTRL_D = "\x04"


@pytest.fixture
def slow(gateway: FakeGateway) -> FakeGateway:
    """A gateway whose answers begin and end only when they are aborted."""
    running: list[Exchange] = []

    async def send(exchange: Exchange) -> None:
        running.append(exchange)
        await exchange.reply({"status": "started"})
        await exchange.chat("delta", "It was a dark")

    async def abort(exchange: Exchange) -> None:
        await exchange.reply({"aborted": True})
        await running[-1].chat("aborted", "It was a dark")

    gateway.methods |= {"chat.send": send, "chat.abort": abort}
    return gateway


async def test_ctrl_c_stops_the_answer_and_keeps_the_chat(
    slow: FakeGateway, environ: dict[str, str]
) -> None:
    async with chatting(environ) as terminal:
        opening = await terminal.expect(r"exits\.\s+> ")
        assert "Model: scripted/tiny" in opening
        assert "No messages yet" in opening
        assert "typed during an answer is sent at once" in " ".join(opening.split())
        terminal.type("a story\n")
        await terminal.expect("It was a dark")
        await terminal.press_ctrl_c()
        assert "stopped." in await terminal.expect("> ")
        slow.methods["chat.send"] = echo
        terminal.type("again\n")
        await terminal.expect(r"You said again\.\s+> ")
        terminal.type(CTRL_D)
        assert await terminal.exit_code() == 0
    assert [method for method, _ in slow.requests].count("chat.abort") == 1


@pytest.mark.usefixtures("slow")
async def test_a_second_ctrl_c_leaves(environ: dict[str, str]) -> None:
    async with chatting(environ, "--message", "a story") as terminal:
        await terminal.expect("It was a dark")
        await terminal.press_ctrl_c()
        await terminal.expect(r"stopped\.\s+> ")
        await terminal.press_ctrl_c()
        assert await terminal.exit_code() == 0


async def test_ctrl_c_at_the_prompt_asks_once_more(
    gateway: FakeGateway, environ: dict[str, str]
) -> None:
    async with chatting(environ) as terminal:
        await terminal.expect("\n> ")
        terminal.type("half a line")
        await terminal.expect("half a line")
        await terminal.press_ctrl_c()
        await terminal.expect(r"exits\.\s+> ")
        await terminal.press_ctrl_c()
        assert await terminal.exit_code() == 0
    assert "chat.send" not in [method for method, _ in gateway.requests]


async def test_earlier_messages_are_shown_first(
    gateway: FakeGateway, environ: dict[str, str]
) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello\x1b[1m"}]
    gateway.answer("chat.history", {"messages": messages})
    async with chatting(environ) as terminal:
        opening = await terminal.expect("exits")
        assert "> hi\nhello[1m\n" in opening
        assert "Nothing was said" not in opening


@dataclass
class Running:
    """What was asked of a gateway that answers when the test says so, by the message."""

    asked: dict[str, Exchange] = field(default_factory=dict[str, Exchange])
    _more: anyio.Event = field(default_factory=anyio.Event)

    async def of(self, message: str) -> Exchange:
        """Returns the request with the message, once it has come."""
        with anyio.fail_after(60):
            while message not in self.asked:
                await self._more.wait()
        return self.asked[message]

    async def send(self, exchange: Exchange) -> None:
        self.asked[exchange.params["message"]] = exchange
        more, self._more = self._more, anyio.Event()
        more.set()
        await exchange.reply({"status": "started"})
        if exchange.params["message"] == "a story":
            await exchange.chat("delta", "It was a dark")

    async def joined(self, message: str, host: str) -> None:
        """Lets the message enter the run of another."""
        data = {"phase": "start", "joined": self.asked[host].params["idempotencyKey"]}
        guest = await self.of(message)
        run = guest.params["idempotencyKey"]
        await guest.event("agent", runId=run, stream="lifecycle", data=data)


@pytest.fixture
def running(gateway: FakeGateway) -> Running:
    running = Running()
    gateway.methods["chat.send"] = running.send
    return running


async def test_a_line_typed_during_an_answer_is_sent_at_once_and_the_answer_to_both_shown_once(
    running: Running, environ: dict[str, str]
) -> None:
    async with chatting(environ, "--message", "a story") as terminal:
        await terminal.expect("It was a dark")
        terminal.type("with a dog\n")
        assert (
            await terminal.expect(r"\(sent: with a dog\)\n") == "with a dog\n(sent: with a dog)\n"
        )
        story, dog = await running.of("a story"), await running.of("with a dog")
        await running.joined("with a dog", "a story")
        await story.chat("delta", "It was a dark night; a dog")
        await story.chat("final", "It was a dark night; a dog barked.")
        await dog.chat("final")
        assert await terminal.expect("> ") == " night; a dog barked.\n\n> "
        terminal.type("and then\n")
        await terminal.expect("and then\n")
        await (await running.of("and then")).chat("final", "It slept.")
        assert await terminal.expect("> ") == "It slept.\n\n> "


async def test_an_answer_of_its_own_follows_and_one_to_a_command_comes_between(
    running: Running, environ: dict[str, str]
) -> None:
    async with chatting(environ, "--message", "a story") as terminal:
        await terminal.expect("It was a dark")
        terminal.type("another\n")
        await terminal.expect(r"\(sent: another\)\n")
        terminal.type("/status\n")
        await terminal.expect(r"\(sent: /status\)\n")
        story, other = await running.of("a story"), await running.of("another")
        await story.chat("delta", "It was a dark night")
        await terminal.expect("night")
        await (await running.of("/status")).chat("final", "All is well.")
        assert await terminal.expect(r"well\.\n\n") == "\nAll is well.\n\n"
        await other.chat("delta", "Once")
        await story.chat("final", "It was a dark night.")
        assert await terminal.expect("Once") == ".\n\nOnce"
        await other.chat("final", "Once more.")
        assert await terminal.expect("> ") == " more.\n\n> "


async def test_what_is_typed_can_stop_the_answer_or_leave(
    slow: FakeGateway, environ: dict[str, str]
) -> None:
    stories: list[Exchange] = []
    tell = slow.methods["chat.send"]

    async def send(exchange: Exchange) -> None:
        if exchange.params["message"] != "/stop":
            stories.append(exchange)
            await tell(exchange)
            return
        await exchange.reply({"status": "started"})
        await stories[0].chat("aborted", "It was a dark")
        await exchange.chat("final", "Stopped.")

    slow.methods["chat.send"] = send
    async with chatting(environ, "--message", "a story") as terminal:
        await terminal.expect("It was a dark")
        terminal.type("/stop\n")
        assert "stopped." in await terminal.expect(r"Stopped\.\s+> ")
        terminal.type("another story\n")
        await terminal.expect("It was a dark")
        terminal.type("/exit\n")
        assert await terminal.exit_code() == 0


async def test_each_ctrl_c_stops_one_answer_and_ctrl_d_leaves_after_all(
    running: Running, gateway: FakeGateway, environ: dict[str, str]
) -> None:
    async def abort(exchange: Exchange) -> None:
        await exchange.reply({"aborted": True})
        for one in running.asked.values():
            if one.params["idempotencyKey"] == exchange.params["runId"]:
                await one.chat("aborted")

    gateway.methods["chat.abort"] = abort
    async with chatting(environ, "--message", "a story") as terminal:
        await terminal.expect("It was a dark")
        terminal.type("another\n")
        await terminal.expect(r"\(sent: another\)\n")
        terminal.type("a third\n")
        await terminal.expect(r"\(sent: a third\)\n")
        await terminal.press_ctrl_c()
        await terminal.expect(r"stopped\.\s+")
        await (await running.of("another")).chat("delta", "Once")
        await terminal.expect("Once")
        await terminal.press_ctrl_c()
        await terminal.expect(r"stopped\.\s+")
        terminal.type(CTRL_D)
        await (await running.of("a third")).chat("final", "The end.")
        await terminal.expect(r"The end\.\s+")
        assert await terminal.exit_code() == 0


async def test_lines_that_are_pasted_are_messages_of_their_own(
    running: Running, environ: dict[str, str]
) -> None:
    async with chatting(environ) as terminal:
        await terminal.expect("\n> ")
        terminal.type("a story\ntwo\nthree\n")
        await terminal.expect(r"\(sent: three\)\n")
        await running.of("a story")
        await running.of("two")
        await running.of("three")
        assert list(running.asked)[:1] == ["a story"]
