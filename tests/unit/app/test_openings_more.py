"""Sessions that begin and come back: on platforms, beside runs, past plugins and crashes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.config.session import SessionConfig
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import Handler
from skerry.model.errors import ModelOverloadedError
from skerry.model.ids import RunId, SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.message import AssistantMessage, UserMessage
from skerry.model.queue import QueueMode
from skerry.model.run import StopReason
from skerry.store import Store, archive, runs, sessions
from skerry.testing.model import ReplyGate, ScriptedModel
from tests.support.core import MAIN, request
from tests.support.openings import (
    ALICE,
    HOUR,
    Opened,
    current,
    delivered,
    receive,
    text,
    transcript_texts,
)


async def test_a_run_that_is_on_at_the_boundary_ends_in_the_old_session(tmp_path: Path) -> None:
    gate = ReplyGate()
    opened = Opened(tmp_path, ScriptedModel([[gate, "late"], ["early"]]))
    async with opened as core:
        opened.clock.advance(16 * HOUR - 1000)
        await core.dispatch.submit(request("night"))
        await gate.reached.wait()
        old = await current(core)
        opened.clock.advance(2000)
        await core.dispatch.submit(request("morning"))
        assert (await current(core)).session_id == old.session_id
        gate.open()
        with anyio.fail_after(60):
            result = await core.dispatch.wait(RunId("morning"), None)
        assert result is not None
        assert opened.seen() == ["morning"]
        kept = await core.store.read(lambda r: sessions.entries(r, old.session_id, limit=-1))
        assert [text(entry.message) for entry in kept] == ["night", "late"]
        assert (await current(core)).session_id == result.session_id != old.session_id


async def test_a_command_waits_its_turn_and_what_waits_behind_it_is_new(tmp_path: Path) -> None:
    gate = ReplyGate()
    opened = Opened(tmp_path, ScriptedModel([[gate, "done"], ["fresh"]]))
    async with opened as core:
        await core.dispatch.submit(request("work", queue_mode=QueueMode.STEER))
        await gate.reached.wait()
        old = await current(core)
        await core.dispatch.submit(request("/new", queue_mode=QueueMode.STEER))
        gate.open()
        with anyio.fail_after(60):
            await core.dispatch.wait(RunId("/new"), None)
        await core.ask("next")
        kept = await core.store.read(lambda r: sessions.entries(r, old.session_id, limit=-1))
        assert [text(entry.message) for entry in kept] == ["work", "done"]
        assert opened.seen() == ["next"]


async def test_a_person_on_a_platform_reads_it_once_before_the_reply(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await receive(core, "evening", "m1")
        opened.clock.advance(24 * HOUR)
        await receive(core, "morning", "m2")
        await receive(core, "morning", "m2")
        blocks = await delivered(core)
        assert [block for block, _ in blocks] == [0, -1, 0]
        assert blocks[1][1].startswith("🌱 A new conversation, as every day at 04:00.")


async def test_a_new_session_that_a_person_asks_for_is_announced_on_the_platform(
    tmp_path: Path,
) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await receive(core, "evening", "m1")
        await receive(core, "/new tell me more", "m2")
        blocks = await delivered(core)
        assert (-1, "🌱 A new conversation. `/resume` brings the last one back.") in blocks
        assert opened.seen() == ["tell me more"]


async def test_a_session_that_was_idle_is_announced_on_the_platform(tmp_path: Path) -> None:
    opened = Opened(tmp_path, session=SessionConfig(idle_minutes=5))
    async with opened as core:
        await receive(core, "evening", "m1")
        opened.clock.advance(HOUR)
        await receive(core, "later", "m2")
        (notice,) = [text for block, text in await delivered(core) if block == -1]
        assert notice.startswith("🌱 A new conversation, after 5 minutes without a message.")


async def test_a_muted_conversation_is_told_nothing_on_the_platform(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await receive(core, "evening", "m1")
        session = await current(core, ALICE)
        muted = type(session.settings)(send_policy="deny")
        await core.store.write(
            lambda unit: archive.change(unit, session.session_id, label="", settings=muted)
        )
        opened.clock.advance(24 * HOUR)
        await receive(core, "morning", "m2")
        assert len(await delivered(core)) == 1
        assert (await transcript_texts(core, ALICE))[0].startswith("🌱")


async def test_everybody_resets_their_own_conversation_and_no_other(tmp_path: Path) -> None:
    async with Opened(tmp_path, owners=("memory:boss",)) as core:
        group = {"kind": PeerKind.GROUP, "peer": "family"}
        group_key = SessionKey.parse("agent:main:memory:group:family")
        await receive(core, "mine", "a1")
        await receive(core, "/new", "a2")
        assert "mine" not in await transcript_texts(core, ALICE)
        await receive(core, "hello all", "g1", sender="alice", **group)
        await receive(core, "/new", "g2", sender="alice", **group)
        await receive(core, "/resume", "g3", sender="alice", **group)
        # They are ignored, without an answer, and no word to a model.
        assert await transcript_texts(core, group_key) == ["hello all", "echo: hello all"]
        await receive(core, "/new", "g4", sender="boss", **group)
        assert "hello all" not in await transcript_texts(core, group_key)


async def test_a_stranger_in_main_cannot_end_it(tmp_path: Path) -> None:
    session = SessionConfig.model_validate({"dmScope": "main"})
    async with Opened(tmp_path, session=session) as core:
        await core.ask("mine")
        await receive(core, "/new", "a1")
        assert (await transcript_texts(core))[0] == "mine"


async def test_a_stranger_chooses_no_model(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        (model, *_) = await core.models.listing()
        await receive(core, "old", "a1")
        await receive(core, f"/new {model.ref}", "a2")
        assert opened.seen() == [model.ref]
        assert (await current(core, ALICE)).settings.model is None


@pytest.mark.requirement("hooks-session-boundaries")
async def test_plugins_receive_every_change_in_order(tmp_path: Path) -> None:
    heard: list[tuple[str, Any]] = []
    hooks = Hooks()

    def note(name: str) -> Callable[[Any], Any]:
        async def call(event: Any) -> None:
            heard.append((name, event))

        return call

    for name in ("before_reset", "session_end", "session_start"):
        point = getattr(hooks, name)
        point.add(Handler("test", note(name)))
    opened = Opened(tmp_path, hooks=hooks)
    async with opened as core:
        await core.ask("evening")
        first = await current(core)
        opened.clock.advance(24 * HOUR)
        await core.ask("morning")
        second = await current(core)
        await core.ask("/resume")
        with anyio.fail_after(60):
            while len(heard) < 6:
                await anyio.wait_all_tasks_blocked()
    by_name = {name: [one for each, one in heard if each == name] for name, _ in heard}
    assert [one.reason for one in by_name["before_reset"]] == ["daily"]
    assert [text(message) for message in by_name["before_reset"][0].messages] == [
        "evening",
        "echo: evening",
    ]
    ended = [(one.session_id, one.reason) for one in by_name["session_end"]]
    assert ended == [(first.session_id, "daily"), (second.session_id, "restore")]
    began = [(one.session_id, one.resumed_from) for one in by_name["session_start"]]
    assert began == [
        (first.session_id, None),
        (second.session_id, first.session_id),
        (first.session_id, second.session_id),
    ]


@pytest.mark.parametrize("typed", ["/new", "/new go", "/resume", "morning"])
async def test_what_a_crash_cuts_off_is_in_one_session_once(tmp_path: Path, typed: str) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await core.ask("first")
        opened.clock.advance(1)
        await core.ask("/new second")
    gate = ReplyGate()
    held = Opened(tmp_path, ScriptedModel([[gate]]), limit=1)
    held.clock.advance(24 * HOUR if typed == "morning" else 1)
    async with held as core:  # the only place is taken, so it is accepted and not begun
        await core.dispatch.submit(request("busy", key=SessionKey.parse("agent:main:other")))
        await gate.reached.wait()
        before = await sessions_of(core.store)
        await core.dispatch.submit(request(typed, "cut"))
        session, after = await current(core), await sessions_of(core.store)
        assert len(after - before) == (0 if typed == "/resume" else 1)
    again = Opened(tmp_path)
    async with again as core:
        for run in await core.store.read(runs.unfinished):
            if run.request.key == MAIN:
                core.dispatch.resume(run)
        with anyio.fail_after(60):
            result = await core.dispatch.wait(RunId("cut"), None)
        assert result is not None
        assert result.session_id == session.session_id == (await current(core)).session_id
        assert await sessions_of(core.store) == after
        texts = [
            text(message) for message in await core.transcript() if isinstance(message, UserMessage)
        ]
        assert (
            texts
            == {
                "/new": ["/new"],
                "/new go": ["go"],
                "/resume": ["first", "/resume"],
                "morning": ["morning"],
            }[typed]
        )
        if typed == "/resume":
            assert result.payloads[0].startswith("↩️ Back in “first”.")
        elif typed == "/new":
            assert result.payloads[0].startswith("🌱 A new conversation.")


async def sessions_of(store: Store) -> set[str]:
    rows = await store.read(
        lambda reader: reader.all("SELECT session_id FROM session WHERE key = ?", (str(MAIN),))
    )
    return {session_id for (session_id,) in rows}


async def test_a_failing_provider_leaves_the_session_where_it_is(tmp_path: Path) -> None:
    model = ScriptedModel([["fine"], [ModelOverloadedError("busy")], ["back"]])
    opened = Opened(tmp_path, model)
    async with opened as core:
        await core.ask("one")
        session = await current(core)
        assert (await core.ask("two")).stop_reason is StopReason.ERROR
        assert (await core.ask("three")).session_id == session.session_id
        assert opened.seen() == ["one", "two", "three"]
    async with Opened(tmp_path) as core:  # and so does a start
        assert (await core.ask("four")).session_id == session.session_id


async def test_notes_are_flushed_before_the_new_session_is_asked(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await core.ask("evening")
        opened.clock.advance(24 * HOUR)
        await core.ask("morning")
        flush, last = opened.model.requests[-2:]
        messages = [
            message
            for message in flush.messages
            if isinstance(message, UserMessage | AssistantMessage)
        ]
        assert [text(message) for message in messages[:2]] == ["evening", "echo: evening"]
        assert len(messages) == 3
        assert len(last.messages) == 1
        assert opened.seen() == ["morning"]
        await core.ask("/new noon")
        assert len(opened.model.requests) == 4  # who asks for it needs no notes
