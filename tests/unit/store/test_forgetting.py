"""Erased text is neither in the database nor in its files; all other data is unchanged."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from skerry.infra import sqlite
from skerry.infra.atomic import make_private
from skerry.model import message
from skerry.model.approval import ApprovalState, Verdict
from skerry.model.ids import AccountId, AgentId, ChannelId, RunId, SessionId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.message import (
    COMPACTION,
    CompactionMessage,
    ImageBlock,
    TextBlock,
    Usage,
    UserMessage,
)
from skerry.model.redaction import MARK, Redaction
from skerry.model.run import RunRequest
from skerry.model.tool import ToolResult
from skerry.store import (
    DATABASE,
    Store,
    Unit,
    allowlist,
    approvals,
    audit,
    backups,
    open_store,
    outbox,
    runs,
    sessions,
)
from skerry.store.approvals import ApprovalView, StoredApproval
from skerry.store.backups import BackupKind
from skerry.store.forgetting import begin, count_matches, finish, holds, incomplete, redact
from skerry.store.indexing import fill
from skerry.store.mirror import Mirror
from skerry.store.state_schema import STEPS
from skerry.store.transcript_search import TranscriptQuery, search

MAIN = SessionKey.main()
OTHER_KEY = SessionKey.parse("agent:other:main")
AGENT = AgentId("main")
WORD = "zebra-quokka"
SAID = f"I like tea. The code of my locker is {WORD}. It rains."


async def say(store: Store, key: SessionKey, *texts: str) -> None:
    def work(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, key, SessionId(str(key).replace(":", "-")), 1)
        messages = [message.user(text, 1) for text in texts]
        sessions.append(unit, session_id, tail, "r", messages, 1)

    await store.write(work)


async def everywhere(store: Store) -> None:
    """Writes the text into each table with text."""
    await say(store, MAIN, "hello", SAID, "bye")
    await say(store, OTHER_KEY, SAID)
    request = RunRequest(RunId("run1"), MAIN, SAID)

    def work(unit: Unit) -> None:
        session_id, tail, _ = sessions.present(unit, MAIN) or (SessionId(""), 0, 0)
        summary = CompactionMessage(
            (TextBlock(f"They talked. {SAID}"),), "", *COMPACTION, Usage(), "stop", 1, first_kept=3
        )
        sessions.append(unit, session_id, tail, "r", [summary], 1)
        unit.execute("UPDATE entry SET kind = 'compaction' WHERE seq = ?", (tail + 1,))
        unit.execute("UPDATE session SET label = ? WHERE session_id = ?", (SAID, session_id))
        runs.add(unit, request, session_id, 2, 1)
        unit.execute(
            "UPDATE run SET partial = ?, result = ?",
            (SAID, msgspec.json.encode({"text": SAID, "sessionKey": str(MAIN)})),
        )
        unit.execute(
            "INSERT INTO outbox (run_id, block, part, channel, account, destination, text,"
            " created_at, updated_at) VALUES ('run1', 0, 0, 'c', 'a', '{}', ?, 1, 1)",
            (SAID,),
        )
        unit.execute(
            "INSERT INTO answered (method, key, digest, answer) VALUES ('m', 'k', x'', ?)",
            (msgspec.json.encode({"ok": SAID}),),
        )

    await store.write(work)
    await store.write(approve)
    await fill(store, ["agent-main-main", "agent-other-main"])


def approve(unit: Unit) -> None:
    """Writes the text into an approval, its request in a chat, the audit log, and a last use."""
    view = ApprovalView("exec", f"echo {SAID}", "gateway", "/", "main", str(MAIN), "on-miss")
    pending = StoredApproval("a1", ApprovalState.PENDING, "digest", None, view, 1, 2)
    approvals.add(unit, pending, "", "")
    approvals.resolve(unit, "a1", Verdict.ONCE, "me", 1)
    approvals.begin(unit, "a1", 1)
    approvals.end(unit, "a1", ToolResult(SAID), 1)
    unit.execute(
        "INSERT INTO outbox (run_id, block, part, channel, account, destination, text,"
        " created_at, updated_at) VALUES ('approval-request-a1', 0, 0, 'c', 'a', '{}', ?, 1, 1)",
        (SAID,),
    )
    allowlist.add(unit, "main", "echo *", "person", "me", 1)
    allowlist.used(unit, "main", ("echo *",), f"echo {SAID}", "/bin/echo", 1)


async def test_a_statement_goes_from_every_table_and_everything_else_stays(tmp_path: Path) -> None:
    redaction = Redaction([WORD])
    async with open_store(tmp_path / DATABASE) as store:
        await everywhere(store)
        before = await store.read(lambda reader: count_matches(reader, AGENT, redaction))
        counts = await redact(store, AGENT, redaction)
        assert counts == before
        assert (counts.entries, counts.summaries, counts.runs) == (1, 1, 1)
        assert (counts.replies, counts.answers, counts.labels) == (2, 1, 1)
        assert counts.approvals == 3
        assert counts.sessions == ("agent-main-main",)
        assert (await store.read(lambda reader: count_matches(reader, AGENT, redaction))).rows == 0
        texts = await store.read(
            lambda reader: [
                message.decode(body).text
                for (body,) in reader.all("SELECT body FROM entry ORDER BY session_id, seq")
            ]
        )
        redacted = f"I like tea. {MARK} It rains."
        assert texts == ["hello", redacted, "bye", f"They talked. {redacted}", SAID]


async def test_what_no_run_sent_goes_and_what_another_agent_sent_stays(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await everywhere(store)
        peer = Peer(PeerKind.DIRECT, "ann")
        to = ReplyTo(ChannelId("c"), AccountId("a"), peer, "")

        def write(unit: Unit) -> None:
            runs.add(
                unit, RunRequest(RunId("run2"), OTHER_KEY, "x"), SessionId("agent-other-main"), 2, 1
            )
            for run_id in ("send-1", "undelivered-1", "run2"):
                outbox.add(unit, RunId(run_id), 0, to, [SAID], 1)

        await store.write(write)
        await redact(store, AGENT, Redaction([WORD]))
        rows = await store.read(
            lambda reader: reader.all("SELECT run_id FROM outbox WHERE text = ?", (SAID,))
        )
        assert rows == [("run2",)]


async def test_pictures_go_with_the_words_of_their_message(tmp_path: Path) -> None:
    picture = ImageBlock("eA==", "image/png")
    async with open_store(tmp_path / DATABASE) as store:
        with_words = UserMessage((TextBlock(SAID), picture), 1)
        without_words = UserMessage((TextBlock("A boat."), picture), 1)

        def write(unit: Unit) -> None:
            session_id, tail = sessions.ensure(unit, MAIN, SessionId("s1"), 1)
            sessions.append(
                unit, session_id, tail, "r", [with_words, without_words], 1, person_wrote_at=2
            )

        await store.write(write)
        await redact(store, AGENT, Redaction([WORD]))
        bodies = await store.read(lambda reader: reader.all("SELECT body FROM entry ORDER BY seq"))
        first, second = (message.decode(body) for (body,) in bodies)
        assert isinstance(first, UserMessage)
        assert first.content == (TextBlock(f"I like tea. {MARK} It rains."),)
        assert second == without_words


async def test_the_search_finds_the_rest_of_what_was_said_and_not_what_is_gone(
    tmp_path: Path,
) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await everywhere(store)
        await redact(store, AGENT, Redaction([WORD]))
        assert (await search(store, TranscriptQuery(MAIN, "zebra"))).hits == []
        (hit,) = (await search(store, TranscriptQuery(MAIN, "tea"))).hits
        assert MARK in hit.excerpt.text
        assert len((await search(store, TranscriptQuery(OTHER_KEY, "zebra"))).hits) == 1


async def test_no_file_has_the_bytes_when_it_is_finished(tmp_path: Path) -> None:
    """The text is neither in freed pages, nor in the write-ahead log, nor in the mirror."""
    path = tmp_path / DATABASE
    mirror = Mirror(tmp_path / "agents", tmp_path)
    async with open_store(path, on_commit=mirror.touched.add) as store:
        await everywhere(store)
        await redact(store, AgentId("other"), Redaction([WORD]))  # it had the same words
        await mirror.flush(store)
        assert WORD in text_of(tmp_path)
        serial = await store.write(lambda unit: begin(unit, AGENT, [WORD], 5))
        counts = await redact(store, AGENT, Redaction([WORD]))
        await mirror.rewrite(store, counts.sessions)
        (erasure,) = await store.read(incomplete)
        assert (erasure.serial, erasure.agent, erasure.phrases) == (serial, AGENT, (WORD,))
        await finish(store, serial)
        assert await store.read(incomplete) == []
        assert WORD not in text_of(tmp_path)
        assert "It rains." in text_of(tmp_path)


def text_of(folder: Path) -> str:
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".sqlite-shm")
    return "".join(file.read_bytes().decode("latin-1") for file in files)


async def test_a_repeated_key_is_still_known_but_its_text_cannot_be_guessed(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await everywhere(store)
        await redact(store, AGENT, Redaction([WORD]))
        rows = await store.read(lambda reader: reader.all("SELECT run_id, digest FROM run"))
    assert rows == [("run1", None)]


async def test_what_comes_while_it_is_redacted_is_redacted_too(tmp_path: Path) -> None:
    redaction = Redaction([WORD])
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, MAIN, *[f"{number} {SAID}" for number in range(250)])
        real, late = store.write, [True]

        async def write(work: Callable[[Unit], object]) -> object:
            if late.pop() if late else False:
                await say(store, MAIN, SAID)
            return await real(work)

        store.write = write  # type: ignore[method-assign,assignment]
        counts = await redact(store, AGENT, redaction)
        assert counts.entries == 251
        assert (await store.read(lambda reader: count_matches(reader, AGENT, redaction))).rows == 0


async def test_a_backup_tells_whether_it_still_holds_it(tmp_path: Path) -> None:
    make_private(tmp_path)
    async with open_store(tmp_path / DATABASE) as store:
        await everywhere(store)
        backup = backups.create(tmp_path, BackupKind.MANUAL, 1_800_000_000_000)
        assert holds(backup.path, Redaction([WORD]))
        assert not holds(backup.path, Redaction(["walrus"]))
        await redact(store, AGENT, Redaction([WORD]))
        await redact(store, AgentId("other"), Redaction([WORD]))
    assert not holds(tmp_path / DATABASE, Redaction([WORD]))


@pytest.mark.parametrize("word", ["agent", "main", "webchat"])
async def test_a_word_that_names_things_leaves_their_names_alone(tmp_path: Path, word: str) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, MAIN, f"My {word}. Done.")
        request = RunRequest(RunId("r1"), MAIN, f"My {word}. Done.")
        await store.write(lambda unit: runs.add(unit, request, SessionId("agent-main-main"), 1, 1))
        await redact(store, AGENT, Redaction([word]))
        (open_run,) = await store.read(runs.unfinished)
    assert open_run.request.text == f"{MARK} Done."
    assert (open_run.request.key, open_run.request.run_id) == (MAIN, RunId("r1"))


async def test_what_an_older_version_began_is_gone_on_with_and_leaves_extra_paths_alone(
    tmp_path: Path,
) -> None:
    before = next(number for number, step in enumerate(STEPS) if "COLUMN extra" in step)
    connection = sqlite.connect(tmp_path / DATABASE)
    sqlite.migrate(connection, tmp_path / DATABASE, STEPS[:before])
    connection.execute(
        "INSERT INTO forgetting (agent, phrases, asked_at) VALUES ('main', ?, 5)", (b'["zebra"]',)
    )
    connection.commit()
    connection.close()
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(lambda unit: begin(unit, AGENT, ["tea"], 6, extra=True))
        assert [(erasure.phrases, erasure.extra) for erasure in await store.read(incomplete)] == [
            (("zebra",), False),
            (("tea",), True),
        ]


async def test_the_log_of_decisions_stays_a_chain_when_facts_are_forgotten(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(approve)
        await redact(store, AGENT, Redaction([WORD]))
        report = await store.read(audit.verify)
        assert (report.broken, report.erased, report.entries) == (None, 1, 5)
        row = await store.read(lambda reader: approvals.get(reader, "a1"))
        assert row is not None
        assert (row.subject.command, row.fingerprint) == (f"echo I like tea. {MARK} It rains.", "")
