"""Numbers of entries: they increase, stay the same, and exist only for entries of ended runs."""

from pathlib import Path

import pytest

from skerry.model import message
from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import (
    AssistantMessage,
    CompactionMessage,
    MessageContext,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from skerry.model.origin import Origin
from skerry.model.redaction import Redaction
from skerry.runtime import taint
from skerry.sdk.transcripts import Transcripts
from skerry.store import DATABASE, Store, Unit, compactions, forgetting, open_store, sessions
from skerry.store.retention import remove

MAIN = SessionKey.main()


def own(text: str) -> UserMessage:
    return UserMessage((TextBlock(text),), 1, Origin.OWNER)


def answer(text: str) -> AssistantMessage:
    return AssistantMessage((TextBlock(text),), "a", "p", "m", Usage(), "stop", 1)


async def say(store: Store, text: str, run: str, key: SessionKey = MAIN) -> None:
    """Appends a message and its answer."""

    def work(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, key, SessionId(f"s-{key}"), 1)
        messages = (own(text), answer(f"re: {text}"))
        sessions.append(unit, session_id, tail, run, messages, 5)

    await store.write(work)


async def texts(transcripts: Transcripts, cursor: int) -> list[tuple[int, str]]:
    return [(row.serial, row.text) for row in await transcripts.since(cursor)]


async def test_what_was_said_before_the_first_reader_has_no_number(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, "old", "r1")
        transcripts = Transcripts(store)
        assert await transcripts.latest() == 0
        assert await transcripts.since(0) == []
        await say(store, "new", "r2")
        (user, reply) = await transcripts.since(0)
        assert (user.serial, user.role, user.text, user.run_id) == (1, "user", "new", "r2")
        assert (user.session_key, user.origin, user.is_private) == (str(MAIN), Origin.OWNER, True)
        assert (reply.serial, reply.role, reply.text) == (2, "assistant", "re: new")
        assert await transcripts.since(2) == []


async def test_a_number_outlives_a_restart_a_summary_and_an_erasure(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await Transcripts(store).latest()
        await say(store, "the secret is heron", "r1")
        before = await texts(Transcripts(store), 0)
        summary = CompactionMessage((TextBlock("z"),), "a", "p", "m", Usage(), "stop", 1)
        await store.write(lambda u: compactions.add(u, SessionId(f"s-{MAIN}"), 2, summary, 9, 0))
        await forgetting.redact(store, MAIN.agent, Redaction(("the secret is heron",)))
    async with open_store(tmp_path / DATABASE) as store:
        transcripts = Transcripts(store)
        await say(store, "later", "r2")
        after = await transcripts.since(0)
        assert [row.serial for row in after[:2]] == [number for number, _ in before]
        assert "heron" not in str(after)
        assert [(row.role, row.text) for row in after[2:]] == [
            ("", ""),
            ("user", "later"),
            ("assistant", "re: later"),
        ]


async def test_messages_of_a_run_under_way_have_no_number_yet(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        transcripts = Transcripts(store)
        await transcripts.latest()
        await say(store, "first", "r1")
        insert = (
            "INSERT INTO run (run_id, session_key, session_id, request, accepted_at, entry)"
            " VALUES ('r2', ?, ?, '{}', 1, 3)"
        )
        await store.write(lambda unit: unit.execute(insert, (str(MAIN), f"s-{MAIN}")))
        await say(store, "second", "r2")
        assert [text for _, text in await texts(transcripts, 0)] == ["first", "re: first"]
        ended = "UPDATE run SET result = '{}' WHERE run_id = 'r2'"
        await store.write(lambda unit: unit.execute(ended))
        await say(store, "third", "r3")
        assert [number for number, _ in await texts(transcripts, 0)] == [1, 2, 3, 4, 5, 6]


async def test_a_tool_has_its_origin_and_no_text_and_a_command_nothing(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        transcripts = Transcripts(store)
        await transcripts.latest()
        call = AssistantMessage((ToolCall("1", "t", {}),), "a", "p", "m", Usage(), "toolUse", 1)
        page = ToolResultMessage(
            "1", "t", (TextBlock("a page"),), is_error=False, timestamp=1, origin=Origin.WEB
        )

        def work(unit: Unit) -> None:
            session_id, tail = sessions.ensure(unit, MAIN, SessionId("s"), 1)
            messages = (message.user("/status", 1), call, page)
            sessions.append(unit, session_id, tail, "r", messages, 5)

        await store.write(work)
        rows = await transcripts.since(0)
        assert [(row.role, row.text, row.origin) for row in rows][0::2] == [
            ("", "", Origin.STRANGER),
            ("tool", "", Origin.WEB),
        ]


async def test_a_session_that_is_removed_leaves_no_numbers(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        transcripts = Transcripts(store)
        await transcripts.latest()
        await say(store, "gone", "r1")
        assert len(await transcripts.since(0)) == 2

        def work(unit: Unit) -> bool:
            unit.execute("UPDATE session SET current = 0")
            return remove(unit, f"s-{MAIN}")

        assert await store.write(work)
        counted = await store.read(lambda reader: reader.all("SELECT count(*) FROM spoken"))
        assert (await transcripts.since(0), counted) == ([], [(0,)])


@pytest.mark.abuse(123)
async def test_entries_after_text_of_others_are_tainted_until_the_owner_clears_it(
    tmp_path: Path,
) -> None:
    page = ToolResultMessage(
        "c", "web_fetch", (TextBlock("obey"),), is_error=False, timestamp=1, origin=Origin.WEB
    )
    forwarded = UserMessage(
        (TextBlock("look"),), 1, Origin.OWNER, MessageContext("{}", "somebody's words")
    )

    async def add(store: Store, run: str, *messages: message.Message) -> None:
        def work(unit: Unit) -> None:
            session_id, tail = sessions.ensure(unit, MAIN, SessionId("s"), 1)
            sessions.append(unit, session_id, tail, run, messages, 5)

        await store.write(work)

    async def tainted(*readers: Transcripts) -> list[bool]:
        answers = [[row.is_tainted for row in await each.since(0)] for each in readers]
        assert answers.count(answers[0]) == len(answers), "also for a reader that begins later"
        return answers[0]

    async with open_store(tmp_path / DATABASE) as store:
        transcripts = Transcripts(store)
        await transcripts.latest()
        await add(store, "r1", own("hi"), answer("hello"))
        assert await tainted(transcripts) == [False] * 2
        await add(store, "r2", page, answer("it says obey"))
        await add(store, "r3", own("and?"), answer("obey"))
        both = (transcripts, Transcripts(store))
        assert await tainted(*both) == [False] * 2 + [True] * 4
        await store.write(lambda unit: taint.clear(unit, str(MAIN), 9, "owner"))
        await add(store, "r4", own("thanks"), answer("gladly"))
        assert await tainted(*both) == [False] * 8
        await add(store, "r5", forwarded, answer("they say"))
        assert await tainted(*both) == [False] * 8 + [True] * 2
