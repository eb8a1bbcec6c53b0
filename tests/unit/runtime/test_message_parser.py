"""A conversation that is reset, by command or by expiry, and restored: no message is lost."""

from pathlib import Path

import pytest

from skerry.config.agents import AgentDefaults, AgentsConfig
from skerry.config.session import SessionConfig
from skerry.model.ids import RunId, SessionKey
from skerry.model.run import Purpose, RunRequest
from skerry.store import archive, sessions
from tests.support.core import MAIN
from tests.support.openings import HOUR, NOON, Opened, current, earlier, text, transcript_texts


@pytest.mark.requirement("reset-daily-4am")
@pytest.mark.requirement("agent-lifecycle-session-init")
async def test_the_first_message_after_four_starts_a_session_and_says_so(tmp_path: Path) -> None:
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
        texts = await transcript_texts(core)
        assert texts[0] == (
            "🌱 A new conversation, as every day at 04:00. `/resume` brings the last one back."
        )
        assert texts[1] == "morning"
        (old,) = await earlier(core)
        assert (old.session_id, old.archived) == (before.session_id, "reset")
        entries = await core.store.read(lambda r: sessions.entries(r, old.session_id, limit=-1))
        assert [text(entry.message) for entry in entries[::2]] == ["evening", "night"]


async def test_the_conversation_goes_on_the_same_day(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        for words in ("one", "two", "three"):
            await core.ask(words)
            opened.clock.advance(5 * HOUR)
        assert len(await core.transcript()) == 6


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
        assert len(await core.transcript()) == 6
        opened.clock.advance(HOUR + 1)
        await core.ask("four")
        assert "after 60 minutes without a message" in (await transcript_texts(core))[0]
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
            await core.dispatch.wait(run.run_id, 60)
        await core.ask("/resume list")
        assert (await current(core)).session_id == before.session_id
        await core.ask("morning")
        assert (await current(core)).session_id != before.session_id


@pytest.mark.requirement("reset-manual-commands")
@pytest.mark.parametrize("typed", ["/new", "/reset", " /NEW ", "/New\n"])
async def test_a_command_resets_the_conversation_without_a_model(
    tmp_path: Path, typed: str
) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await core.ask("old words")
        before = await current(core)
        result = await core.ask(typed)
        assert len(opened.model.requests) == 1
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
        assert (await transcript_texts(core))[:2] == [
            "🌱 A new conversation. `/resume` brings the last one back.",
            "tell me more\nof it",
        ]


@pytest.mark.parametrize("words", ["/news/today", "//newer", "say /new", "/new/er"])
async def test_a_longer_word_is_an_ordinary_message(tmp_path: Path, words: str) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await core.ask("old")
        await core.ask(words)
        assert opened.seen() == ["old", words]


@pytest.mark.parametrize("words", ["/news of today", "/newer", "/resetting"])
async def test_a_longer_command_opens_no_conversation(tmp_path: Path, words: str) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await core.ask("old")
        assert (await core.ask(words)).payloads[0].startswith("Unknown command `/")
        await core.ask("more")
        assert opened.seen() == ["old", "more"]


async def test_a_trigger_of_one_s_own_and_no_other(tmp_path: Path) -> None:
    session = SessionConfig(reset_triggers=("fresh start",))
    opened = Opened(tmp_path, session=session)
    async with opened as core:
        await core.ask("old")
        assert "A new conversation" in (await core.ask("Fresh start")).payloads[0]
        assert (await transcript_texts(core))[0] == "Fresh start"
        await core.ask("fresh start please")
        assert opened.seen() == ["please"]


async def test_a_command_in_a_new_session_leaves_it(tmp_path: Path) -> None:
    async with Opened(tmp_path) as core:
        await core.ask("/new", "a")
        first = await current(core)
        result = await core.ask("/new", "b")
        assert result.payloads == ("This conversation has no messages yet, so it is new already.",)
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
        return [model.ref for model in await core.models.listing()]


async def test_levels_stay_with_a_command_and_go_with_the_night(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    async with opened as core:
        await core.ask("one")
        session = await current(core)
        settings = session.settings.with_model("a/b")
        changed = type(settings)(
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
        no_session = ("There is no earlier session of this conversation.",)
        assert (await core.ask("/resume")).payloads == no_session
        await core.ask("a talk")
        session = await current(core)
        assert (await core.ask("/resume", "again")).payloads == no_session
        await core.ask("/new other")
        listed = (await core.ask("/resume list")).payloads[0]
        assert "1. a talk" in listed
        assert session.session_id[:8] in listed
        answer = (await core.ask("/resume zzz")).payloads[0]
        assert "Unknown session 'zzz'" in answer
        assert (await transcript_texts(core))[1] == "other"


async def test_what_was_deleted_does_not_come_back_by_a_command(tmp_path: Path) -> None:
    async with Opened(tmp_path) as core:
        key = SessionKey.parse("agent:main:trip")
        await core.ask("a talk", key=key)
        await core.store.write(lambda unit: archive.delete(unit, key, NOON))
        result = await core.ask("/resume", "r", key)
        assert result.payloads == ("There is no earlier session of this conversation.",)
