"""The taint of a conversation: shown with the calls that brought it, and cleared by its owner."""

import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from skerry.hooks.hooks import Hooks
from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    user,
)
from skerry.model.origin import Origin
from skerry.model.session import SessionSettings
from skerry.model.thinking import ThinkingLevel
from skerry.policy.file_gate import CLOCK_NS
from skerry.runtime.conversation import ConversationCache
from skerry.runtime.taint import Taint, clear, look
from skerry.store import Reader, Unit, audit, open_store, sessions
from skerry.store.audit import AuditLogEntry
from skerry.testing.gateway import running_gateway
from tests.e2e.test_approvals import begin, final
from tests.e2e.test_exec import HOST, call, gateway
from tests.support.cli import run_command
from tests.support.net_lab import lab, reply
from tests.support.whole import whole_gateway
from tests.support.wire import Wire, connected

KEY = str(SessionKey.main())


def last_entries(reader: Reader) -> list[AuditLogEntry]:
    return audit.last(reader, 50)


async def asking_rule(wire: Wire, command: str, run: str) -> str:
    """Returns the rule by which a command is asked about; it is allowed once."""
    await begin(wire, call(command), run)
    request: dict[str, Any] = (await wire.event("exec.approval.requested"))["payload"]
    await wire.call("exec.approval.resolve", {"id": request["id"], "decision": "allow-once"})
    await final(wire, runId=run)
    return str(request["request"]["rule"])


@asynccontextmanager
async def again(home: Path) -> AsyncIterator[Wire]:
    """Opens a second life of the gateway whose state is in `home`."""
    async with (
        whole_gateway(home, Hooks()) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        yield wire


async def settled(workspace: Path) -> None:
    """Waits until no file is so new that a command could be taken for its author."""
    newest = max(file.lstat().st_ctime_ns for file in workspace.rglob("*"))
    await anyio.sleep(max(0, newest + CLOCK_NS - time.time_ns()) / 1e9)


async def test_what_taints_a_conversation_is_shown_and_cleared_for_good(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home", HOST) as (application, wire, workspace):
        # The first run of all leaves a file of the gateway's in the workspace.
        assert await asking_rule(wire, "pwd", "r0") == "allowlist-miss"
        await settled(workspace)
        assert await asking_rule(wire, "uname -r > x; cat ../x", "r1") != "tainted-host"
        assert await asking_rule(wire, "pwd", "r2") == "tainted-host"
        state = await wire.call("sessions.taint", {"key": "main"})
        assert (state["origins"], state["tainted"]) == (["web"], True)
        assert state["sources"][0]["tool"] == "exec"
        assert "uname -r" in json.loads(state["sources"][0]["call"])["command"]
        await begin(wire, "/taint", "r3")
        assert "uname -r" in await final(wire, runId="r3")
        (workspace / "x").unlink()
        await begin(wire, "/taint clear", "r4")
        assert "Cleared" in await final(wire, runId="r4")
        assert await asking_rule(wire, "pwd", "r5") == "allowlist-miss"
        kinds = [
            entry.kind for entry in await application.dispatch.runtime.store.read(last_entries)
        ]
        assert kinds.count("taint.cleared") == 1
    async with again(tmp_path / "home") as wire:
        assert await asking_rule(wire, "pwd", "r6") == "allowlist-miss"
        assert await asking_rule(wire, "cat ../x", "r7") == "allowlist-miss"
        assert await asking_rule(wire, "pwd", "r8") == "tainted-host"


async def test_only_what_was_seen_is_cleared(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home", HOST) as (_, wire, _):
        assert await asking_rule(wire, "cat ../x", "r1") == "allowlist-miss"
        payload = await wire.call("sessions.taint", {"key": "main"})
        await asking_rule(wire, "cat ../y", "r2")
        params = {"key": "main", "through": payload["through"]}
        state = await wire.call("sessions.taint.clear", params)
        assert [source["call"] for source in state["sources"]] == ['{"command":"cat ../y"}']
        assert await asking_rule(wire, "pwd", "r3") == "tainted-host"


async def test_what_arrived_after_the_look_stays_tainted_also_of_a_call_that_was_open(
    tmp_path: Path,
) -> None:
    async with open_store(tmp_path / "s.sqlite") as store:
        call_ = ToolCall("c1", "web_fetch", {"url": "http://x.example"})
        result = ToolResultMessage(
            "c1", "web_fetch", (TextBlock("words"),), is_error=False, timestamp=2, origin=Origin.WEB
        )
        messages: list[Message] = [
            user("look", 1),
            AssistantMessage((call_,), "openai", "test", "m", Usage(), "toolUse", 1),
            result,
        ]

        def write(unit: Unit) -> Taint | None:
            session_id, tail = sessions.ensure(unit, SessionKey.main(), SessionId("s1"), 1)
            sessions.append(unit, session_id, tail, "r", messages, 2)
            return clear(unit, KEY, 3, "a test", through=2)

        await store.write(write)
        state = await store.read(lambda reader: look(reader, KEY))
        assert state is not None
        assert [source.call for source in state.sources] == ['{"url":"http://x.example"}']
        conversation = await ConversationCache(store).get(SessionId("s1"), 4, 2)
        assert conversation.taint == {Origin.WEB}
        await store.write(lambda unit: clear(unit, KEY, 4, "a test"))
        conversation = await ConversationCache(store).get(SessionId("s1"), 4, 3)
        assert conversation.taint == frozenset()
        assert "<untrusted-result" in conversation.history.messages[-1].text


def test_a_new_conversation_under_the_key_is_cleared_of_nothing() -> None:
    settings = SessionSettings(taint_cleared=7, thinking_level=ThinkingLevel.HIGH)
    assert settings.after_reset() == SessionSettings(thinking_level=ThinkingLevel.HIGH)
    assert "taintCleared" not in settings.set_values()


async def test_the_command_line_shows_it_and_clears_it(tmp_path: Path) -> None:
    async with lab() as world:
        await world.serve("10.0.0.1", 80, reply(b"<p>Mail</p>", content_type="text/html"))
        host = f"127.0.0.1:{world.ports['10.0.0.1', 80]}"
        config = {"tools": {"web": {"fetch": {"ssrfPolicy": {"allowedHostnames": [host]}}}}}
        async with running_gateway(home=tmp_path, config=config) as process:

            async def skerry(*arguments: str) -> str:
                environ = {**os.environ, "SKERRY_STATE_DIR": str(process.home)}
                completed = await run_command("sessions", "taint", *arguments, environ=environ)
                assert completed.returncode == 0, completed.stderr
                return completed.stdout.decode()

            async with connected(process.address.url, auth={"token": process.token}) as wire:
                await begin(wire, "hello")
                await final(wire, runId="r1")
                assert await skerry("main") == f"No text from others in {KEY}.\n"
                await begin(wire, f"call web_fetch {json.dumps({'url': f'http://{host}/'})}", "r2")
                await final(wire, runId="r2")
            assert "web_fetch" in await skerry("main")
            state = json.loads(await skerry("main", "--json"))
            assert (state["tainted"], state["origins"]) == (True, ["web"])
            cleared = json.loads(await skerry("main", "--clear", "--json"))
            assert (cleared["tainted"], cleared["clearedThrough"]) == (False, state["through"])
