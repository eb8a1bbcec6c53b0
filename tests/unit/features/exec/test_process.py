"""Commands in the background over real processes: terminal, keys, limits, the end of the tree."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast, get_args

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from msgspec import Struct, field

from skerry.config.root import Config
from skerry.features.exec.command_check import ExecRules
from skerry.features.exec.gateway_host import on_gateway
from skerry.features.exec.input_gate import input_gate
from skerry.features.exec.notice import Notices
from skerry.features.exec.process_session import ExecCommand, ProcessSession
from skerry.features.exec.process_tool import ProcessParams, ProcessSessions, outcome
from skerry.features.exec.registry import MAX_RUNNING_PER_SESSION, Registry, tell_nobody
from skerry.infra.process import Program
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.caller import Caller
from skerry.model.errors import SandboxError, ToolError
from skerry.model.ids import RunId, SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.model.run import Purpose, RunRequest
from skerry.model.tool import ToolResult
from skerry.policy.effect import ToolEffect
from skerry.ports.sandbox import SandboxProcess
from skerry.ports.tool import ToolContext
from skerry.sdk.tool_host import ToolHost
from skerry.testing.clock import FakeClock

KEY = SessionKey.main()
OTHER = SessionKey.parse("agent:main:other", KEY.agent)
REQUEST = RunRequest(RunId("r"), KEY, "run it", origin=Origin.OWNER)
KEEP_MS = 60_000


def settings(commands: dict[str, Any] | None = None) -> Config:
    home = Path("/nonexistent")
    return Config.model_validate(
        {"tools": {"exec": commands or {}}, "state_dir": home, "path": home / "skerry.json"}
    )


class Rig:
    """Commands of this machine, and the tool that works with them."""

    def __init__(self, folder: Path, tasks: anyio.abc.TaskGroup) -> None:
        self.folder = folder
        self.tasks = tasks
        self.clock = FakeClock()
        self.told: Callable[[ProcessSession], Awaitable[None]] = tell_nobody
        self.registry = Registry(
            self._start,
            self.clock,
            lambda: KEEP_MS,
            lambda session: self.told(session),  # noqa: PLW0108 - a test sets it later
        )
        self.tool = ProcessSessions(self.registry, settings)

    def _start(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        async def run() -> None:
            await work()

        self.tasks.start_soon(run, name=name)

    async def begin(self, text: str, **changes: Any) -> ProcessSession:
        """Begins a command, and leaves it in the background."""
        options: dict[str, Any] = {"open": self.opened(text), "seconds": 60.0, "listens": True}
        command = ExecCommand(
            text=text, host="gateway", cwd=str(self.folder), **(options | changes)
        )
        session = self.registry.begin(command, KEY)
        session.is_background = True
        with anyio.fail_after(60):
            await session.started.wait()
        return session

    def opened(self, text: str) -> Callable[[bool], AbstractAsyncContextManager[SandboxProcess]]:
        program = Program(
            ("/bin/bash", "--noprofile", "--norc", "-c", text),
            {"PATH": "/usr/bin:/bin", "TERM": "xterm"},
            self.folder,
            merges=True,
        )
        return lambda terminal: on_gateway(program, listens=True, pty=terminal)

    async def call(self, action: str, session: ProcessSession | str = "", **more: Any) -> str:
        return (await self.result(action, session, **more)).text

    async def result(
        self, action: str, session: ProcessSession | str = "", key: SessionKey = KEY, **more: Any
    ) -> ToolResult:
        name = session if isinstance(session, str) else session.id
        caller = Caller(key, PeerKind.DIRECT, Origin.OWNER, is_private=True)
        context = ToolContext(RootedFolder(self.folder), caller=caller)
        return await self.tool.run({"action": action, "sessionId": name, **more}, context)

    async def printed(self, session: ProcessSession, expected: str) -> str:
        with anyio.fail_after(60):
            while expected not in session.output.text:
                await session.wait_for_output(1)
        return session.output.text


@asynccontextmanager
async def rig(folder: Path) -> AsyncIterator[Rig]:
    async with anyio.create_task_group() as tasks:
        yield Rig(folder, tasks)
        tasks.cancel_scope.cancel()


async def wait_for_end(pid: int) -> None:
    with anyio.fail_after(60):
        while is_alive(pid):
            await anyio.lowlevel.checkpoint()


def is_alive(pid: int) -> bool:
    """Returns whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_model_is_told_of_every_parameter() -> None:
    fields = {field.alias or name for name, field in ProcessParams.model_fields.items()}
    assert fields == set(ProcessSessions.spec.parameters["properties"])
    actions = ProcessSessions.spec.parameters["properties"]["action"]["enum"]
    assert set(actions) == set(get_args(ProcessParams.model_fields["action"].annotation))


async def test_a_terminal_gets_keys_and_a_paste_within_its_marks(tmp_path: Path) -> None:
    async with rig(tmp_path) as commands:
        session = await commands.begin("test -t 0 && echo is a tty; stty -echo; cat -v", pty=True)
        await commands.printed(session, "is a tty")
        payload = await commands.call("send-keys", session, keys=["Up", "C-Left", "M-x", "Enter"])
        assert payload == f"Sent 12 bytes to session {session.id}."
        await commands.printed(session, "^[[A^[[1;5D^[x")
        assert "Pasted 5 chars" in await commands.call("paste", session, text="words")
        await commands.call("submit", session)
        await commands.printed(session, "^[[200~words")
        await commands.call("paste", session, text="bare", bracketed=False)
        await commands.call("send-keys", session, hex=["0d"], literal="")
        await commands.printed(session, "^[[201~\nbare")
        await commands.call("write", session, eof=True)
        await session.wait(60)
        assert "Process exited with code 0." in await commands.call("poll", session)


async def test_without_a_terminal_the_command_has_a_pipe_and_a_warning(tmp_path: Path) -> None:
    async with rig(tmp_path) as commands:
        plain = commands.opened("test -t 0 || echo a pipe")

        def opened(terminal: bool) -> AbstractAsyncContextManager[SandboxProcess]:  # noqa: FBT001 - the port's
            if terminal:
                raise SandboxError("no terminals", "none")
            return plain(False)  # noqa: FBT003 - the port's

        session = await commands.begin("x", open=opened, pty=True)
        await session.wait(60)
        text = outcome(session).text
        assert text.startswith("Warning: no terminal")
        assert text.endswith("a pipe")


async def test_a_pipe_gets_input_without_marks_and_its_end(tmp_path: Path) -> None:
    async with rig(tmp_path) as commands:
        session = await commands.begin("cat -v; exit 3")
        await commands.call("paste", session, text="pasted")
        await commands.call("submit", session)
        payload = await commands.call("write", session, data="x\n", eof=True)
        assert payload == f"Wrote 2 bytes to session {session.id} (stdin closed)."
        await session.wait(60)
        poll = await commands.call("poll", session)
        assert poll == "pasted\nx\n\nProcess exited with code 3."
        assert session.is_told
        with pytest.raises(ToolError, match="not writable"):
            await commands.call("write", session, data="late")


async def test_the_log_is_paged_and_a_poll_returns_what_is_new_within_its_limit(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path) as commands:
        session = await commands.begin("seq 0 99999")
        await session.wait(60)
        poll = await commands.call("poll", session)
        assert len(poll) < 31_000
        assert "99999\n\nProcess exited" in poll
        assert (await commands.call("poll", session)).startswith("(no new output)")
        assert await commands.call("log", session, offset=1, limit=2) == "1\n2"
        last = await commands.call("log", session)
        assert "99999" in last
        assert "99700" not in last


async def test_the_end_of_the_time_ends_all_that_a_command_started(tmp_path: Path) -> None:
    async with rig(tmp_path) as commands:
        session = await commands.begin("sleep 600 & echo $!; wait", seconds=1.0)
        pid = int(await commands.printed(session, "\n"))
        await session.wait(60)
        assert "was killed after 1 s" in await commands.call("poll", session)
        await wait_for_end(pid)


async def test_ctrl_c_interrupts_the_command_in_a_terminal(tmp_path: Path) -> None:
    async with rig(tmp_path) as commands:
        text = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done"
        session = await commands.begin(text, pty=True)
        await commands.printed(session, "ready")
        await commands.call("send-keys", session, keys=["C-c"])
        await session.wait(60)
        shown = await commands.call("poll", session)
        assert "caught" in shown
        assert "code 7" in shown


@pytest.mark.parametrize("pty", [True, False])
async def test_the_end_of_the_gateway_ends_all_commands(tmp_path: Path, *, pty: bool) -> None:
    async with rig(tmp_path) as commands:
        session = await commands.begin("sleep 600 & echo $!; wait", pty=pty)
        pid = int(await commands.printed(session, "\n"))
        assert is_alive(pid)
    await wait_for_end(pid)


async def test_kill_and_remove_end_a_command_and_clear_takes_only_ended_ones(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path) as commands:
        first, second = await commands.begin("sleep 600"), await commands.begin("sleep 601")
        with pytest.raises(ToolError, match="No finished session"):
            await commands.call("clear", first)
        killed = await commands.result("kill", first)
        assert (killed.text, (killed.details or {})["status"]) == (
            f"Killed session {first.id}.",
            "failed",
        )
        assert first.id in await commands.call("list")
        assert await commands.call("clear", first) == f"Cleared session {first.id}."
        assert await commands.call("remove", second) == f"Removed session {second.id}."
        assert await commands.call("list") == "No running or recent sessions."
        assert first.pid is not None
        assert second.pid is not None
        await wait_for_end(first.pid)
        await wait_for_end(second.pid)


async def test_a_conversation_has_only_its_own_commands_for_as_long_as_they_are_kept(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path) as commands:
        session = await commands.begin("true")
        await session.wait(60)
        with pytest.raises(ToolError, match="No session found"):
            await commands.result("poll", session, key=OTHER)
        assert (await commands.result("list", key=OTHER)).details == {"sessions": []}
        commands.clock.advance(KEEP_MS)
        assert session.id in await commands.call("list")
        commands.clock.advance(1)
        with pytest.raises(ToolError, match="No session found"):
            await commands.call("poll", session)


async def test_a_conversation_runs_only_so_many_commands(tmp_path: Path) -> None:
    async with rig(tmp_path) as commands:
        for _ in range(MAX_RUNNING_PER_SESSION):
            await commands.begin("sleep 600")
        with pytest.raises(ToolError, match="64 commands are running already"):
            await commands.begin("true")


class Turns(Struct):
    """Takes messages; one run is on until `ended`."""

    messages: list[RunRequest] = field(default_factory=list)
    ended: anyio.Event = field(default_factory=anyio.Event)

    def active(self, key: SessionKey) -> list[RunId]:
        assert key == KEY
        return [RunId("on")]

    async def wait(self, run_id: RunId, timeout: float | None) -> None:  # noqa: ASYNC109 - the port's
        assert (run_id, timeout) == ("on", None)
        await self.ended.wait()

    async def submit(self, request: RunRequest) -> None:
        self.messages.append(request)


def notices(turns: Turns, *, notify: bool = True) -> Notices:
    config = settings({"notifyOnExit": notify})
    parts: dict[str, Any] = {"config": lambda: config, "store": None, "environ": {}}
    return Notices(ToolHost(**parts, clock=FakeClock(), dispatcher=cast("Any", turns)))


@pytest.mark.parametrize(
    ("looks", "notify", "number"), [(False, True, 1), (True, True, 0), (False, False, 0)]
)
async def test_the_end_starts_a_turn_once_unless_the_agent_looked(
    tmp_path: Path, *, looks: bool, notify: bool, number: int
) -> None:
    turns, told = Turns(), anyio.Event()
    tell = notices(turns, notify=notify)

    async def telling(session: ProcessSession) -> None:
        await tell(session)
        told.set()

    async with rig(tmp_path) as commands:
        commands.told = telling
        session = await commands.begin("echo '<b>out'; exit 4", request=REQUEST)
        await session.wait(60)
        if looks:
            await commands.call("poll", session)
        assert turns.messages == []
        turns.ended.set()
        with anyio.fail_after(60):
            await told.wait()
    assert len(turns.messages) == number
    for request in turns.messages:
        assert (request.key, request.origin, request.purpose) == (
            KEY,
            Origin.OWNER,
            Purpose.COMMAND,
        )
        assert request.text_origin is Origin.TOOL
        assert "Process exited with code 4." in request.text
        assert "<b>out" in request.text


@pytest.mark.parametrize(
    ("place", "modes", "taint", "began_tainted", "effect", "rule"),
    [
        ("sandbox", ("full", "on-miss"), set[Origin](), False, ToolEffect.ALLOW, "process"),
        ("sandbox", ("full", "always"), set[Origin](), False, ToolEffect.ASK, "ask-always"),
        ("sandbox", ("deny", "on-miss"), set[Origin](), False, ToolEffect.DENY, "security-deny"),
        ("sandbox", ("full", "on-miss"), {Origin.WEB}, False, ToolEffect.ASK, "tainted-input"),
        ("sandbox", ("full", "on-miss"), {Origin.WEB}, True, ToolEffect.ALLOW, "process"),
        ("sandbox", ("full", "on-miss"), {Origin.LOCAL}, False, ToolEffect.ALLOW, "process"),
        (
            "gateway",
            ("allowlist", "on-miss"),
            set[Origin](),
            False,
            ToolEffect.ASK,
            "process-input",
        ),
        ("gateway", ("allowlist", "off"), set[Origin](), False, ToolEffect.DENY, "process-input"),
        ("gateway", ("full", "on-miss"), set[Origin](), False, ToolEffect.ALLOW, "process"),
        ("gateway", ("full", "on-miss"), {Origin.WEB}, True, ToolEffect.ASK, "tainted-host"),
    ],
)
async def test_input_is_decided_on_as_a_command_that_nobody_can_read_beforehand(  # noqa: PLR0913, PLR0917 - a row
    tmp_path: Path,
    place: str,
    modes: tuple[Any, Any],
    taint: set[Origin],
    began_tainted: bool,  # noqa: FBT001 - a row
    effect: ToolEffect,
    rule: str,
) -> None:
    async with rig(tmp_path) as commands:
        session = await commands.begin("cat")
        session.command = ExecCommand(
            "cat", place, "/", session.command.open, 60.0, is_tainted=began_tainted
        )
        rules = ExecRules(*modes, (), ())
        answer = input_gate(session, rules, b"rm -rf x\n", taint)
        assert (answer.effect, answer.rule) == (effect, rule)
        other = input_gate(session, rules, b"ls\n", taint)
        if answer.subject is not None and other.subject is not None:
            assert "rm -rf x" in answer.subject.command
            assert answer.subject.binding != other.subject.binding


async def test_the_gate_of_the_tool_is_the_one_of_input(tmp_path: Path) -> None:
    async with rig(tmp_path) as commands:
        session = await commands.begin("cat")
        caller = Caller(KEY, PeerKind.DIRECT, Origin.OWNER, is_private=True)
        context = ToolContext(RootedFolder(tmp_path), caller=caller)
        calls: list[tuple[str, dict[str, Any], ToolEffect]] = [
            ("write", {"data": "x"}, ToolEffect.ASK),
            ("submit", {}, ToolEffect.ASK),
            ("paste", {"text": "x"}, ToolEffect.ASK),
            ("send-keys", {"keys": ["C-c"]}, ToolEffect.ASK),
            ("poll", {}, ToolEffect.ALLOW),
            ("kill", {}, ToolEffect.ALLOW),
        ]
        for action, more, effect in calls:
            arguments = {"action": action, "sessionId": session.id, **more}
            assert (await commands.tool.assess(arguments, context)).effect is effect, action
