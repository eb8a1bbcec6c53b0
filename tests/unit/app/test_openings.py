"""A conversation that begins anew, by command or by itself, and comes back: nothing is lost."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.app.command_sessions import session_commands
from skerry.commands.table import CommandTable
from skerry.config.agents import AgentDefaults, AgentsConfig
from skerry.config.session import SessionConfig
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import Handler
from skerry.model.errors import ModelOverloadedError
from skerry.model.ids import RunId, SessionKey
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.model.message import Message, UserMessage
from skerry.model.queue import QueueMode
from skerry.model.run import Purpose, RunRequest, StopReason
from skerry.model.session import SessionEntry
from skerry.store import Store, archive, outbox, runs, sessions
from skerry.testing.channel import ACCOUNT, CHANNEL
from skerry.testing.clock import FakeClock
from skerry.testing.model import Gate, ScriptedModel, echo
from tests.support.core import MAIN, Core, open_core, request

HOUR = 3_600_000
NOON = int(datetime.fromisoformat("2026-05-04 12:00").timestamp() * 1000)  # local time
ALICE = SessionKey.parse("agent:main:memory:direct:alice")


def text(one: Message) -> str:
    return "".join(getattr(block, "text", "") for block in one.content)


async def told(core: Core, key: SessionKey = MAIN) -> list[str]:
    return [text(one) for one in await core.said(key)]


async def current(core: Core, key: SessionKey = MAIN) -> SessionEntry:
    found = await core.store.read(lambda reader: sessions.find(reader, str(key)))
    assert found is not None
    return found


async def earlier(core: Core, key: SessionKey = MAIN) -> list[SessionEntry]:
    return await core.store.read(lambda reader: archive.earlier(reader, str(key), 10))


class Opened:
    """A core with the commands of sessions, on a clock that stands."""

    def __init__(self, home: Path, model: ScriptedModel | None = None, **more: Any) -> None:
        self.clock = FakeClock(NOON)
        self.model = model or ScriptedModel(echo)
        self._table = CommandTable()
        self._stack = AsyncExitStack()
        self._home, self._more = home, more

    async def __aenter__(self) -> Core:
        opening = open_core(
            self._home, self.model, clock=self.clock, commands=self._table, **self._more
        )
        core = await self._stack.enter_async_context(opening)
        for command in session_commands(core.store):
            self._table.add(command)
        return core

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def seen(self) -> list[str]:
        """Return what people said, as the model saw it last."""
        messages = self.model.seen[-1].messages
        return [text(one) for one in messages if isinstance(one, UserMessage)]


def inbound(words: str, message_id: str, peer: str = "alice", **more: Any) -> InboundMessage:
    kind, sender = more.get("kind", PeerKind.DIRECT), more.get("sender", peer)
    return InboundMessage(CHANNEL, ACCOUNT, Peer(kind, peer), sender, words, message_id, 0)


async def receive(core: Core, words: str, message_id: str, **more: Any) -> None:
    """Let a person write over a platform, and wait for the end of the run."""
    await core.dispatch.receive(inbound(words, message_id, **more))
    with anyio.fail_after(10):
        for run_id in core.dispatch.active():
            await core.dispatch.wait(run_id, None)


async def delivered(core: Core) -> list[tuple[int, str]]:
    waiting = await core.store.read(lambda reader: outbox.waiting(reader, CHANNEL, ACCOUNT))
    return [(one.part.block, one.part.text) for one in waiting]


@pytest.mark.requirement("reset-daily-4am")
@pytest.mark.requirement("agent-lifecycle-session-init")
async def test_the_first_message_after_four_begins_anew_and_says_so(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await core.ask("evening")
        before = await current(core)
        opened.clock.advance(16 * HOUR - 1)  # 03:59:59.999
        await core.ask("night")
        assert (await current(core)).session_id == before.session_id
        opened.clock.advance(1)  # 04:00
        await core.ask("morning")
        after = await current(core)
        assert after.session_id != before.session_id
        assert opened.seen() == ["morning"]
        said = await told(core)
        assert said[0] == (
            "🌱 A new conversation, as every day at 04:00. `/resume` brings the last one back."
        )
        assert said[1] == "morning"
        (old,) = await earlier(core)
        assert (old.session_id, old.archived) == (before.session_id, "reset")
        kept = await core.store.read(lambda r: sessions.entries(r, old.session_id, limit=-1))
        assert [text(one.message) for one in kept[::2]] == ["evening", "night"]


async def test_the_conversation_goes_on_the_same_day(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        for words in ("one", "two", "three"):
            await core.ask(words)
            opened.clock.advance(5 * HOUR)
        assert len(await core.said()) == 6


@pytest.mark.requirement("reset-idle")
async def test_silence_ends_a_session_and_each_message_puts_it_off(tmp_path: Path) -> None:
    session = SessionConfig.model_validate({"reset": {"mode": "idle", "idleMinutes": 60}})
    opened = Opened(tmp_path, session=session)
    async with opened as core:
        await core.ask("one")
        opened.clock.advance(HOUR)
        await core.ask("two")
        opened.clock.advance(HOUR)
        await core.ask("three")
        assert len(await core.said()) == 6
        opened.clock.advance(HOUR + 1)
        await core.ask("four")
        assert "after 60 minutes without a message" in (await told(core))[0]
        assert opened.seen() == ["four"]


async def test_only_what_a_person_says_keeps_a_session_fresh(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await core.ask("evening")
        opened.clock.advance(15 * HOUR)
        before = await current(core)
        for number, purpose in enumerate(p for p in Purpose if p is not Purpose.MESSAGE):
            opened.clock.advance(HOUR)
            run = RunRequest(RunId(f"own-{number}"), MAIN, "tick", purpose=purpose)
            await core.dispatch.submit(run)
            await core.dispatch.wait(run.run_id, 5)
        await core.ask("/resume list")
        assert (await current(core)).session_id == before.session_id
        await core.ask("morning")
        assert (await current(core)).session_id != before.session_id


@pytest.mark.requirement("reset-manual-commands")
@pytest.mark.parametrize("typed", ["/new", "/reset", " /NEW ", "/New\n"])
async def test_a_command_begins_anew_without_asking_a_model(tmp_path: Path, typed: str) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await core.ask("old words")
        before = await current(core)
        result = await core.ask(typed)
        assert len(opened.model.seen) == 1
        assert result.payloads == ("🌱 A new conversation. `/resume` brings the last one back.",)
        assert (await current(core)).session_id == result.session_id != before.session_id
        await core.ask("new words")
        assert opened.seen() == ["new words"]


@pytest.mark.requirement("reset-manual-commands")
async def test_the_rest_of_the_command_is_the_first_message(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await core.ask("old words")
        await core.ask("/new tell me more\nof it")
        assert opened.seen() == ["tell me more\nof it"]
        assert (await told(core))[:2] == [
            "🌱 A new conversation. `/resume` brings the last one back.",
            "tell me more\nof it",
        ]


@pytest.mark.parametrize("words", ["/news of today", "/newer", "say /new", "/resetting"])
async def test_a_longer_word_is_an_ordinary_message(tmp_path: Path, words: str) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await core.ask("old")
        await core.ask(words)
        assert opened.seen() == ["old", words]


async def test_a_trigger_of_one_s_own_and_no_other(tmp_path: Path) -> None:
    session = SessionConfig(reset_triggers=("fresh start",))
    opened = Opened(tmp_path, session=session)
    async with opened as core:
        await core.ask("old")
        assert "A new conversation" in (await core.ask("Fresh start")).payloads[0]
        assert (await told(core))[0] == "Fresh start"
        await core.ask("fresh start please")
        assert opened.seen() == ["please"]


async def test_a_command_in_a_new_session_leaves_it(tmp_path: Path) -> None:
    async with Opened(tmp_path) as core:
        await core.ask("/new", "a")
        first = await current(core)
        result = await core.ask("/new", "b")
        assert result.payloads == (
            "Nothing was said in this conversation yet; it is as good as new.",
        )
        assert (await current(core)).session_id == first.session_id
        assert await earlier(core) == []


async def test_new_with_a_model_chooses_it_for_the_new_session(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        (model, *_) = await core.models.listing()
        await core.ask("old")
        result = await core.ask(f"/new {model.ref}")
        assert model.ref in result.payloads[0]
        assert (await current(core)).settings.model == model.ref
        await core.ask(f"/new {model.id} and then")
        assert opened.seen()[-1] == "and then"
        await core.ask("/new no/such-model it is")
        assert opened.seen() == ["no/such-model it is"]
        assert (await current(core)).settings.model is None


async def test_an_alias_names_a_model_too(tmp_path: Path) -> None:
    first = (await open_listing(tmp_path / "a"))[0]
    allowed = {first: {"alias": "Quick"}}
    agents = AgentsConfig(defaults=AgentDefaults.model_validate({"models": allowed}))
    async with Opened(tmp_path / "b", agents=agents) as core:
        await core.ask("/new quick", "n")
        assert (await current(core)).settings.model == first


async def open_listing(home: Path) -> list[str]:
    async with Opened(home) as core:
        return [one.ref for one in await core.models.listing()]


async def test_levels_stay_with_a_command_and_go_with_the_night(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await core.ask("one")
        session = await current(core)
        own = session.settings.with_model("a/b")
        changed = type(own)(
            model=None, verbose_level="full", send_policy="deny", pinned=True, unread=True
        )
        await core.store.write(
            lambda unit: archive.change(unit, session.session_id, label="Trip", settings=changed)
        )
        await core.ask("/new two")
        after = await current(core)
        assert (after.label, after.settings.verbose_level) == ("Trip", "full")
        opened.clock.advance(24 * HOUR)
        await core.ask("three")
        after = await current(core)
        assert (after.label, after.settings.verbose_level) == ("Trip", None)
        assert (after.settings.send_policy, after.settings.pinned) == ("deny", True)


@pytest.mark.requirement("reset-manual-commands")
async def test_resume_brings_the_last_session_back_and_again_the_other(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await core.ask("first talk")
        first = await current(core)
        opened.clock.advance(1)
        await core.ask("/new second talk")
        second = await current(core)
        opened.clock.advance(1)
        result = await core.ask("/resume", "r1")
        assert result.session_id == first.session_id
        assert result.payloads[0].startswith("↩️ Back in “first talk”.")
        assert "second talk" in result.payloads[0]
        await core.ask("go on")
        assert opened.seen() == ["first talk", "go on"]
        opened.clock.advance(1)
        assert (await core.ask("/resume", "r2")).session_id == second.session_id
        assert (await core.ask(f"/resume {first.session_id[:8]}")).session_id == first.session_id


async def test_what_is_resumed_is_fresh(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await core.ask("evening")
        first = await current(core)
        opened.clock.advance(24 * HOUR)
        await core.ask("morning")
        await core.ask("/resume")
        await core.ask("go on")
        assert (await current(core)).session_id == first.session_id
        assert opened.seen() == ["evening", "go on"]


async def test_resume_names_what_there_is(tmp_path: Path) -> None:
    async with Opened(tmp_path) as core:
        nothing = ("There is no earlier session of this conversation.",)
        assert (await core.ask("/resume")).payloads == nothing
        await core.ask("a talk")
        session = await current(core)
        assert (await core.ask("/resume", "again")).payloads == nothing
        await core.ask("/new other")
        listed = (await core.ask("/resume list")).payloads[0]
        assert "1. a talk" in listed
        assert session.session_id[:8] in listed
        unknown = (await core.ask("/resume zzz")).payloads[0]
        assert "No earlier session is called 'zzz'" in unknown
        assert (await told(core))[1] == "other"


async def test_what_was_deleted_does_not_come_back_by_a_command(tmp_path: Path) -> None:
    async with Opened(tmp_path) as core:
        key = SessionKey.parse("agent:main:trip")
        await core.ask("a talk", key=key)
        await core.store.write(lambda unit: archive.delete(unit, key, NOON))
        result = await core.ask("/resume", "r", key)
        assert result.payloads == ("There is no earlier session of this conversation.",)


async def test_a_run_that_is_on_at_the_boundary_ends_in_the_old_session(tmp_path: Path) -> None:
    gate = Gate()
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
        with anyio.fail_after(10):
            result = await core.dispatch.wait(RunId("morning"), None)
        assert result is not None
        assert opened.seen() == ["morning"]
        kept = await core.store.read(lambda r: sessions.entries(r, old.session_id, limit=-1))
        assert [text(one.message) for one in kept] == ["night", "late"]
        assert (await current(core)).session_id == result.session_id != old.session_id


async def test_a_command_waits_its_turn_and_what_waits_behind_it_is_new(tmp_path: Path) -> None:
    gate = Gate()
    opened = Opened(tmp_path, ScriptedModel([[gate, "done"], ["fresh"]]))
    async with opened as core:
        await core.dispatch.submit(request("work", queue_mode=QueueMode.STEER))
        await gate.reached.wait()
        old = await current(core)
        await core.dispatch.submit(request("/new", queue_mode=QueueMode.STEER))
        gate.open()
        with anyio.fail_after(10):
            await core.dispatch.wait(RunId("/new"), None)
        await core.ask("next")
        kept = await core.store.read(lambda r: sessions.entries(r, old.session_id, limit=-1))
        assert [text(one.message) for one in kept] == ["work", "done"]
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
        assert (await told(core, ALICE))[0].startswith("🌱")


async def test_everybody_begins_their_own_conversation_anew_and_no_other(tmp_path: Path) -> None:
    async with Opened(tmp_path, owners=("memory:boss",)) as core:
        group = {"kind": PeerKind.GROUP, "peer": "family"}
        group_key = SessionKey.parse("agent:main:memory:group:family")
        await receive(core, "mine", "a1")
        await receive(core, "/new", "a2")
        assert "mine" not in await told(core, ALICE)
        await receive(core, "hello all", "g1", sender="alice", **group)
        await receive(core, "/new", "g2", sender="alice", **group)
        await receive(core, "/resume", "g3", sender="alice", **group)
        said = await told(core, group_key)
        assert said[0] == "hello all"
        assert "⚠️ Only the owner may use /new here." in said
        assert "⚠️ Only the owner may use /resume here." in said
        await receive(core, "/new", "g4", sender="boss", **group)
        assert "hello all" not in await told(core, group_key)


async def test_a_stranger_in_main_cannot_end_it(tmp_path: Path) -> None:
    session = SessionConfig.model_validate({"dmScope": "main"})
    async with Opened(tmp_path, session=session) as core:
        await core.ask("mine")
        await receive(core, "/new", "a1")
        assert (await told(core))[0] == "mine"


async def test_a_stranger_chooses_no_model(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        (model, *_) = await core.models.listing()
        await receive(core, "old", "a1")
        await receive(core, f"/new {model.ref}", "a2")
        assert opened.seen() == [model.ref]
        assert (await current(core, ALICE)).settings.model is None


async def test_plugins_hear_of_every_change_in_order(tmp_path: Path) -> None:
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
        with anyio.fail_after(5):
            while len(heard) < 6:
                await anyio.wait_all_tasks_blocked()
    by_name = {name: [one for each, one in heard if each == name] for name, _ in heard}
    assert [one.reason for one in by_name["before_reset"]] == ["daily"]
    assert [text(one) for one in by_name["before_reset"][0].messages] == [
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
    gate = Gate()
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
        for one in await core.store.read(runs.unfinished):
            if one.request.key == MAIN:
                core.dispatch.resume(one)
        with anyio.fail_after(10):
            result = await core.dispatch.wait(RunId("cut"), None)
        assert result is not None
        assert result.session_id == session.session_id == (await current(core)).session_id
        assert await sessions_of(core.store) == after
        said = [text(one) for one in await core.said() if isinstance(one, UserMessage)]
        assert (
            said
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
