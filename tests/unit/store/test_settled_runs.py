"""Texts and rows of runs are removed: with their key, after a week, and with their session."""

from pathlib import Path

from msgspec.structs import replace

from skerry.config.session import MaintenanceConfig
from skerry.hooks.hooks import Hooks
from skerry.infra import sqlite
from skerry.infra.clock import DAY_MS
from skerry.model import message
from skerry.model.ids import AccountId, ChannelId, RunId, SessionId, SessionKey
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.message import Usage
from skerry.model.run import RunFailure, RunResult, StopReason
from skerry.sessions.failed_message import to_retry
from skerry.sessions.retention import carry_out, plan
from skerry.store import (
    DATABASE,
    Store,
    Unit,
    archive,
    backups,
    idempotency_keys,
    inbound,
    open_store,
    outbox,
    runs,
    sessions,
    settled_runs,
)
from skerry.store.indexing import fill
from skerry.store.outbox import PartState
from skerry.store.retention import retained
from skerry.store.session_listing import SessionFilter, recent
from skerry.store.state_schema import STEPS
from tests.support.core import request

WORD = "zanzibar"
KEY = SessionKey.parse("agent:main:trip")
ID = SessionId("s1")
PEER = Peer(PeerKind.DIRECT, "alice")
TO = ReplyTo(ChannelId("memory"), AccountId("default"), PEER, "m1")
ARRIVED = InboundMessage(TO.channel, TO.account, PEER, "alice", WORD, "m1", 0)


def ended(run_id: str, text: str) -> RunResult:
    return RunResult(RunId(run_id), str(KEY), ID, StopReason.DONE, (text,), "", "", Usage(), 1, 2)


def spoke(unit: Unit, *, stop: StopReason = StopReason.DONE, notices: tuple[str, ...] = ()) -> None:
    """Adds one run of a client and one of a platform."""
    session_id, tail = sessions.ensure(unit, KEY, ID, 1)
    for run_id, to in (("by-client", None), ("by-platform", TO)):
        run_request = replace(request(f"what of {WORD}", run_id, KEY), reply_to=to)
        messages = [run_request.message(1), message.user(f"it is {WORD}", 1)]
        tail = sessions.append(unit, session_id, tail, run_id, messages, 1, person_wrote_at=1)
        if to is not None:
            inbound.take(unit, ARRIVED, run_request.run_id)
        runs.add(unit, run_request, session_id, tail - 1, 1)
        error = RunFailure("model.failed", f"no {WORD}") if stop is StopReason.ERROR else None
        runs.finish(
            unit,
            RunResult(
                run_request.run_id,
                str(KEY),
                session_id,
                stop,
                (f"it is {WORD}",),
                "",
                "",
                Usage(),
                1,
                2,
                error,
                notices=notices,
            ),
        )
        if to is not None:
            outbox.add(unit, run_request.run_id, 0, to, [f"it is {WORD}"], 2)
            outbox.add(unit, run_request.run_id, 1, to, [f"more of {WORD}"], 2)


def deliver(unit: Unit, *states: PartState) -> None:
    for (serial,), state in zip(unit.all("SELECT serial FROM outbox"), states, strict=True):
        outbox.mark(unit, serial, state, 3)


async def passed(store: Store, quarters: int) -> None:
    """Counts quarters of an hour, as the regular upkeep does."""
    for _ in range(quarters):
        await store.write(idempotency_keys.pass_quarter)
        while await store.write(settled_runs.blank):
            pass
        while await store.write(settled_runs.remove):
            pass


async def copies(store: Store) -> int:
    """Counts the rows outside of the transcript that have the word."""
    (count,) = await store.read(
        lambda reader: reader.all(
            "SELECT (SELECT count(*) FROM run WHERE instr(CAST(request AS TEXT), ?1)"
            " OR instr(CAST(result AS TEXT), ?1) OR instr(partial, ?1))"
            " + (SELECT count(*) FROM outbox WHERE instr(text, ?1) OR instr(error, ?1))",
            (WORD,),
        )
    )
    return int(count[0])


async def rows(store: Store, table: str) -> int:
    (count,) = await store.read(lambda reader: reader.all(f"SELECT count(*) FROM {table}"))  # noqa: S608 - a name of ours
    return int(count[0])


async def test_the_text_stands_once_when_the_key_is_free_and_not_before(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(spoke)
        await store.write(lambda unit: deliver(unit, PartState.SENT, PartState.SENT))
        await passed(store, idempotency_keys.KEPT_QUARTERS)
        repeated = await store.read(lambda reader: runs.result(reader, "by-client"))
        assert repeated is not None
        assert repeated.payloads == (f"it is {WORD}",)
        await passed(store, 1)
        assert await copies(store) == 0
        assert await store.read(lambda reader: runs.find(reader, "by-client")) is None
        accepted = await store.write(lambda unit: inbound.take(unit, ARRIVED, RunId("new")))
        assert accepted == "by-platform"
        result = await store.read(lambda reader: runs.result(reader, "by-platform"))
        assert result is not None
        assert result.payloads == ()


async def test_what_is_not_delivered_keeps_its_text_and_its_run(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(spoke)
        await store.write(lambda unit: deliver(unit, PartState.SENT, PartState.FAILED))
        await passed(store, idempotency_keys.COUNTED_QUARTERS + 2)
        remaining = await store.read(lambda reader: reader.all("SELECT state, text FROM outbox"))
        assert remaining == [("sent", ""), ("failed", f"more of {WORD}")]
        assert await rows(store, "run") == 1
        await store.write(lambda unit: outbox.drop(unit, 2, 9))
        await passed(store, 1)
        assert [await rows(store, table) for table in ("run", "outbox", "inbound")] == [0, 0, 0]


async def test_an_open_run_stays_whole_and_so_do_those_behind_it(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(lambda unit: runs.add(unit, request("open", "r0", KEY), ID, 0, 1))
        await store.write(spoke)
        await passed(store, idempotency_keys.COUNTED_QUARTERS + 2)
        open_run = await store.read(lambda reader: runs.find(reader, "r0"))
        assert isinstance(open_run, runs.OpenRun)
        assert open_run.request.text == "open"


async def test_notices_that_people_have_had_are_known_as_long_as_the_session(
    tmp_path: Path,
) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(lambda unit: spoke(unit, notices=("no thinking",)))
        await store.write(lambda unit: deliver(unit, PartState.SENT, PartState.SENT))
        await passed(store, idempotency_keys.COUNTED_QUARTERS + 1)
        assert await store.read(lambda reader: runs.notices(reader, ID)) == {"no thinking"}


async def test_the_last_message_can_be_run_again_when_its_copy_is_gone(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(lambda unit: spoke(unit, stop=StopReason.ERROR))
        await store.write(lambda unit: deliver(unit, PartState.SENT, PartState.SENT))
        await passed(store, idempotency_keys.KEPT_QUARTERS + 1)
        repeated = await store.read(lambda reader: to_retry(reader, KEY, lambda _: False))
        assert repeated is not None
        assert (repeated.text, repeated.reply_to) == (f"what of {WORD}", TO)


async def test_a_session_that_is_removed_is_in_no_file_and_its_keys_are_known(
    tmp_path: Path,
) -> None:
    limits = MaintenanceConfig()
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(spoke)
        await store.write(lambda unit: deliver(unit, PartState.SENT, PartState.UNKNOWN))
        await fill(store, [ID])
        await store.write(lambda unit: archive.delete(unit, KEY, 5))
        now = 40 * DAY_MS
        due = plan(await store.read(retained), limits, now)
        executed = await carry_out(store, Hooks(), tmp_path / "agents", due, now)
        assert [due_session.session.session_id for due_session in executed.remove] == [ID]
        assert await copies(store) == 0
        assert await store.read(outbox.undelivered) == []
        result = await store.read(lambda reader: runs.result(reader, "by-client"))
        assert result is not None
        assert result.payloads == ()
        assert await store.read(
            lambda reader: runs.has_other_content(reader, request("other", "by-client", KEY))
        )
        backup = backups.create(tmp_path, backups.BackupKind.DAILY, now)
        assert WORD.encode() not in backup.path.read_bytes()
        for file in tmp_path.glob(f"{DATABASE}*"):
            assert WORD.encode() not in file.read_bytes(), file


async def test_runs_of_an_older_version_go_the_same_way(tmp_path: Path) -> None:
    before = next(n for n, step in enumerate(STEPS) if "TABLE settled" in step)
    path = tmp_path / DATABASE
    connection = sqlite.connect(path)
    sqlite.migrate(connection, path, STEPS[:before])
    for serial in range(settled_runs.BATCH + 2):
        connection.execute(
            "INSERT INTO run (run_id, session_key, session_id, request, accepted_at, result)"
            " VALUES (?, 'agent:main:main', 's0', ?, 1, ?)",
            (f"r{serial}", f'{{"text":"{WORD}"}}'.encode(), b"broken " + WORD.encode()),
        )
    connection.execute('UPDATE run SET result = CAST(\'{"payloads":["x"]}\' AS BLOB)')
    connection.close()
    async with open_store(path) as store:
        await passed(store, idempotency_keys.KEPT_QUARTERS + 1)
        assert await copies(store) == 0
        assert await rows(store, "run") == settled_runs.BATCH + 2
        await passed(store, idempotency_keys.COUNTED_QUARTERS - idempotency_keys.KEPT_QUARTERS)
        assert await rows(store, "run") == 0


async def test_runs_and_answers_of_an_older_version_keep_their_age(tmp_path: Path) -> None:
    """Three runs: one without texts, one of an hour ago, one that was accepted just now."""
    before = next(n for n, step in enumerate(STEPS) if "TABLE uptime" in step)
    path = tmp_path / DATABASE
    connection = sqlite.connect(path)
    sqlite.migrate(connection, path, STEPS[:before])
    connection.executescript(
        """
        INSERT INTO quarter (serial, run, answered) VALUES (10, 1, 0), (11, 2, 1);
        UPDATE settled SET blanked = 1;
        INSERT INTO run (run_id, session_key, session_id, request, accepted_at, result, digest)
        VALUES ('r1', 'k', 's', '{}', 1, CAST('{"notices":["n"]}' AS BLOB), NULL),
            ('r2', 'k', 's', '{}', 1, CAST('{}' AS BLOB), x'00'),
            ('r3', 'k', 's', '{}', 1, NULL, x'00');
        INSERT INTO answered (method, key, digest) VALUES ('m', 'a', x'00'), ('m', 'b', x'00');
        INSERT INTO session (session_id, key, agent_id, chat_type, created_at, updated_at, settings)
        VALUES ('s', 'k', 'main', 'direct', 1, 1, CAST('{"pinned":true}' AS BLOB)),
            ('t', 'l', 'main', 'direct', 1, 1, CAST('{}' AS BLOB));
        """
    )
    connection.close()
    async with open_store(path) as store:
        assert await store.read(idempotency_keys.passed) == 11
        statement = "SELECT run_id, quarter, settled, noticed FROM run ORDER BY serial"
        assert await store.read(lambda reader: reader.all(statement)) == [
            ("r1", 0, 1, 1),
            ("r2", 10, 0, 0),
            ("r3", 11, 0, 0),
        ]
        aged = "SELECT key, quarter FROM answered ORDER BY serial"
        assert await store.read(lambda reader: reader.all(aged)) == [("a", 10), ("b", 11)]
        pinned = await store.read(
            lambda reader: recent(reader, SessionFilter(pinned=True), limit=-1)
        )
        assert [session.session_id for session in pinned] == ["s"]


async def test_a_run_that_ends_after_its_key_was_free_loses_its_texts_all_the_same(
    tmp_path: Path,
) -> None:
    """It is selected by its own age, not by a mark that other runs have moved past it."""
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(lambda unit: runs.add(unit, request(WORD, "r0", KEY), ID, 0, 1))
        await store.write(spoke)
        await store.write(lambda unit: deliver(unit, PartState.SENT, PartState.SENT))
        await passed(store, idempotency_keys.KEPT_QUARTERS + 2)
        assert await copies(store) == 1
        await store.write(lambda unit: runs.finish(unit, ended("r0", WORD)))
        await passed(store, 1)
        assert await copies(store) == 0


async def test_rows_of_no_run_outlast_those_of_runs_and_end_after_a_week(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(spoke)

        def send(unit: Unit) -> None:
            deliver(unit, PartState.SENT, PartState.SENT)
            for number, run_id in enumerate(("send-1", "send-2")):
                outbox.add(unit, RunId(run_id), 0, TO, [f"{WORD} {number}"], 10)
            outbox.mark(unit, 3, PartState.SENT, 10)
            inbound.take(unit, replace(ARRIVED, message_id="m2", received_at=10), RunId("group-1"))

        await store.write(send)
        await passed(store, idempotency_keys.COUNTED_QUARTERS + 2)
        counted = ("run", "outbox", "inbound")
        assert [await rows(store, table) for table in counted] == [0, 2, 1]
        texts = "SELECT state, text FROM outbox ORDER BY serial"
        await store.write(lambda unit: settled_runs.drop_without_run(unit, 9 + DAY_MS))
        assert (await store.read(lambda reader: reader.all(texts)))[0] == ("sent", f"{WORD} 0")
        await store.write(lambda unit: settled_runs.drop_without_run(unit, 11 + DAY_MS))
        assert (await store.read(lambda reader: reader.all(texts)))[0] == ("sent", "")
        await store.write(lambda unit: settled_runs.drop_without_run(unit, 11 + 7 * DAY_MS))
        remaining = [("pending", f"{WORD} 1")]
        assert await store.read(lambda reader: reader.all(texts)) == remaining
        assert await rows(store, "inbound") == 0
