"""A restore reverts no security state, and accepts no foreign schema."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from skerry.features.cron import tables
from skerry.features.mcp import tables as mcp_tables
from skerry.features.mcp.listed_tool import ListedTool
from skerry.features.mcp.tables import StoredTool
from skerry.model import message
from skerry.model.approval import EXPIRES_MS, ApprovalState, Verdict
from skerry.model.ids import SessionId, SessionKey
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult
from skerry.policy.file_records import FileRecord
from skerry.sdk.transcripts import Transcripts
from skerry.store import (
    DATABASE,
    Reader,
    Store,
    Unit,
    allowlist,
    approvals,
    audit,
    backups,
    channel_state,
    devices,
    file_records,
    open_store,
    sessions,
)
from skerry.store.approvals import ApprovalView, StoredApproval
from skerry.store.backups import Backup, BackupError, BackupKind
from skerry.store.devices import DeviceGrant, DeviceInfo, DeviceRequest
from skerry.store.restore import Restored, restore
from skerry.store.restore_guard import DECISIONS, TABLES
from tests.support.damage import break_pages

NOW = 1_700_000_000_000
ROLE = "operator"


def paired(name: str) -> Callable[[Unit], DeviceGrant]:
    def work(unit: Unit) -> DeviceGrant:
        about = DeviceInfo("cli", "cli", "linux", "198.51.100.7")
        device_request = DeviceRequest(
            f"r-{name}", name, ROLE, "key", ("operator.admin",), about, "not-paired", NOW
        )
        grant = devices.allow(unit, device_request, NOW)
        devices.issue(unit, grant, f"token of {name}", NOW)
        return grant

    return work


def grant(reader: Reader, name: str) -> DeviceGrant:
    stored = devices.find(reader, name, ROLE)
    assert stored is not None
    return stored


async def home(tmp_path: Path) -> Backup:
    """Pairs three devices and makes a backup; then revokes, rotates, removes and pairs a device."""
    async with open_store(tmp_path / DATABASE) as store:
        for name in ("revoked", "rotated", "removed"):
            await store.write(paired(name))
        backup = backups.create(tmp_path, BackupKind.MANUAL, NOW)
        await store.write(lambda unit: devices.revoke(unit, grant(unit, "revoked"), NOW + 1))
        scopes = ("operator.read",)
        await store.write(
            lambda unit: devices.rotate(unit, grant(unit, "rotated"), scopes, "fresh", NOW + 1)
        )
        await store.write(lambda unit: devices.remove(unit, "removed"))
        await store.write(paired("later"))
    return backup


async def let_in(tmp_path: Path) -> set[tuple[str, str]]:
    tokens = [
        ("revoked", "token of revoked"),
        ("rotated", "token of rotated"),
        ("rotated", "fresh"),
    ]
    tokens += [("removed", "token of removed"), ("later", "token of later")]
    async with open_store(tmp_path / DATABASE) as store:
        return await store.read(
            lambda reader: {
                token for token in tokens if devices.has_token(reader, token[0], ROLE, token[1])
            }
        )


async def test_a_restored_backup_revives_no_device_and_no_token(tmp_path: Path) -> None:
    backup = await home(tmp_path)
    restored = restore(tmp_path, backup, NOW)
    assert await let_in(tmp_path) == {("rotated", "fresh"), ("later", "token of later")}
    async with open_store(tmp_path / DATABASE) as store:
        revoked = await store.read(lambda reader: grant(reader, "revoked"))
        rotated = await store.read(lambda reader: grant(reader, "rotated"))
    assert revoked.revoked_at == NOW + 1
    assert rotated.scopes == ("operator.read",)
    assert (restored.devices.paired, restored.devices.dropped, restored.devices.is_known) == (
        2,
        2,
        True,
    )


@pytest.mark.parametrize("table", ["device_grant", "device_token", None])
async def test_where_the_replaced_database_cannot_tell_everybody_pairs_again(
    tmp_path: Path, table: str | None
) -> None:
    backup = await home(tmp_path)
    if table is None:
        (tmp_path / DATABASE).unlink()
    else:
        break_pages(tmp_path / DATABASE, table)
    restored: Restored = restore(tmp_path, backup, NOW)
    assert await let_in(tmp_path) == set()
    assert (restored.devices.paired, restored.devices.is_known) == (0, False)
    assert restored.devices.dropped >= 2


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        (
            "CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM device_grant; END",
            "trigger 't'",
        ),
        ("CREATE VIEW v AS SELECT 1", "view 'v'"),
        ("CREATE TABLE more (a)", "table 'more'"),
        ("CREATE INDEX i ON entry (at)", "index 'i'"),
        ("DROP INDEX session_recent", "no 'session_recent'"),
        ("DROP TABLE task; CREATE TABLE task (name, done_at, outcome CHECK (1))", "table 'task'"),
        ("PRAGMA user_version = 9999", "newer version"),
    ],
)
async def test_a_backup_with_a_schema_that_is_not_ours_is_refused_and_changes_nothing(
    tmp_path: Path, sql: str, named: str
) -> None:
    backup = await home(tmp_path)
    with closing(sqlite3.connect(backup.path, isolation_level=None)) as connection:
        connection.executescript(sql)
    before = (tmp_path / DATABASE).read_bytes()
    with pytest.raises(BackupError, match="not created by this program") as refused:
        restore(tmp_path, backup, NOW)
    assert named in str(refused.value)
    assert refused.value.remedy
    assert (tmp_path / DATABASE).read_bytes() == before


def record(path: str, *taint: Origin) -> FileRecord:
    return FileRecord(path, path.encode().ljust(32, b"."), 1, "agent:main:main", frozenset(taint))


async def taints(tmp_path: Path) -> dict[str, frozenset[Origin]]:
    async with open_store(tmp_path / DATABASE) as store:
        return {
            file_record.path: file_record.taint
            for file_record in await store.read(file_records.every)
        }


@pytest.mark.parametrize("readable", [True, False])
async def test_a_restore_keeps_who_wrote_the_files_that_are_there(
    tmp_path: Path, *, readable: bool
) -> None:
    web, clean = frozenset({Origin.WEB}), frozenset[Origin]()
    async with open_store(tmp_path / DATABASE) as store:
        for file_record in (
            record("/before", Origin.WEB),
            record("/cleared", Origin.WEB),
            record("/hurt"),
        ):
            await store.write(partial(file_records.keep, record=file_record, now=NOW))
        backup = backups.create(tmp_path, BackupKind.MANUAL, NOW)
        since = (record("/cleared"), record("/hurt", Origin.WEB), record("/since", Origin.WEB))
        for file_record in since:
            await store.write(partial(file_records.keep, record=file_record, now=NOW + 1))
    if not readable:
        (tmp_path / DATABASE).unlink()
    restore(tmp_path, backup, NOW)
    old = {"/before": web, "/cleared": web, "/hurt": clean}
    new = {"/before": web, "/cleared": clean, "/hurt": web, "/since": web}
    assert await taints(tmp_path) == (new if readable else old)


@pytest.mark.parametrize("readable", [True, False])
async def test_a_restored_backup_takes_no_position_of_a_platform_and_no_claimed_time_back(
    tmp_path: Path, *, readable: bool
) -> None:
    async def reach(store: Store, at: int) -> None:
        since = partial(
            channel_state.write, channel="matrix", account="home", name="since", value=str(at)
        )
        await store.write(since)
        await store.write(
            lambda unit: tables.claim(unit, ("frogs", "main"), at, f"r{at}", "due", at)
        )

    async with open_store(tmp_path / DATABASE) as store:
        await reach(store, 1)
        backup = backups.create(tmp_path, BackupKind.MANUAL, NOW)
        await reach(store, 2)
    if not readable:
        (tmp_path / DATABASE).unlink()
    restore(tmp_path, backup, NOW)
    newest = 2 if readable else 1
    async with open_store(tmp_path / DATABASE) as store:
        since = await store.read(lambda r: channel_state.read(r, "matrix", "home", "since"))
        times = [
            at
            for at in (1, 2)
            if await store.read(partial(tables.is_claimed, job_id="frogs", due_at=at))
        ]
    assert (since, times) == (str(newest), list(range(1, newest + 1)))


@pytest.mark.parametrize("readable", [True, False])
async def test_a_plugin_passes_over_no_message_after_a_restore(
    tmp_path: Path, *, readable: bool
) -> None:
    async def say(store: Store, text: str) -> None:
        def work(unit: Unit) -> None:
            session_id, tail = sessions.ensure(unit, SessionKey.main(), SessionId("s"), 1)
            sessions.append(unit, session_id, tail, text, [message.user(text, 1)], 5)

        await store.write(work)

    async with open_store(tmp_path / DATABASE) as store:
        transcripts = Transcripts(store)
        await transcripts.latest()
        await say(store, "numbered later")
        backup = backups.create(tmp_path, BackupKind.MANUAL, NOW)
        for text in ("dropped", "dropped too"):
            await say(store, text)
        cursor = (await transcripts.since(0))[-1].serial
    if not readable:
        (tmp_path / DATABASE).unlink()
    restore(tmp_path, backup, NOW)
    async with open_store(tmp_path / DATABASE) as store:
        await say(store, "new")
        assert [row.text for row in await Transcripts(store).since(cursor)] == ["new"]


async def test_every_table_that_lets_somebody_in_is_one_that_never_goes_back(
    tmp_path: Path,
) -> None:
    async with open_store(tmp_path / DATABASE):
        pass
    lets_in = re.compile("scopes|token_hash|^hash$|secret|public_key|password|device_id")
    grant = set()
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            columns = connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
            if any(lets_in.search(column) for (column,) in columns):
                grant.add(name)
    assert grant - {"audit"} == set(TABLES)
    assert "audit" in DECISIONS


async def test_a_restored_backup_revives_no_pin_of_a_device_or_of_a_file_beside_the_database(
    tmp_path: Path,
) -> None:
    backup = await home(tmp_path)
    other_files = {"model-servers.json": b"{}\n", "skerry.json": b'{"hooks": {}}\n'}
    for name, data in other_files.items():  # confirmations and hashes, as they are since the backup
        (tmp_path / name).write_bytes(data)
    moved = DeviceInfo("cli", "cli", "darwin", "198.51.100.7")
    async with open_store(tmp_path / DATABASE) as store:
        device_request = DeviceRequest(
            "r-2", "rotated", ROLE, "key", ("operator.read",), moved, "moved", NOW + 2
        )
        await store.write(lambda unit: devices.allow(unit, device_request, NOW + 2))
    restore(tmp_path, backup, NOW + 3)
    assert {name: (tmp_path / name).read_bytes() for name in other_files} == other_files
    async with open_store(tmp_path / DATABASE) as store:
        back = await store.read(lambda reader: grant(reader, "rotated"))
    assert (back.about.platform, back.scopes) == ("darwin", ("operator.read",))


@pytest.mark.parametrize("readable", [True, False])
async def test_a_restore_revives_no_pattern_and_no_call_that_was_made(
    tmp_path: Path, *, readable: bool
) -> None:
    approval = pending("a1")
    async with open_store(tmp_path / DATABASE) as store:
        await store.write(lambda unit: allowlist.add(unit, "main", "rm *", "person", "me", NOW))
        await store.write(lambda unit: approvals.add(unit, approval, "r", "c"))
        await store.write(lambda unit: approvals.resolve(unit, "a1", Verdict.ONCE, "me", NOW))
        backup = backups.create(tmp_path, BackupKind.MANUAL, NOW)
        await store.write(lambda unit: allowlist.remove(unit, "main", "rm *", "me", NOW))
        await store.write(lambda unit: approvals.begin(unit, "a1", NOW))
        await store.write(lambda unit: approvals.end(unit, "a1", ToolResult("x"), NOW))
    if not readable:
        (tmp_path / DATABASE).unlink()
    restore(tmp_path, backup, NOW)
    async with open_store(tmp_path / DATABASE) as store:
        assert await store.read(allowlist.patterns) == []
        assert await store.read(approvals.due) == []
        stored = await store.read(lambda reader: approvals.get(reader, "a1"))
        assert (stored and stored.state) == (ApprovalState.ENDED if readable else None)
        report = await store.read(audit.verify)
        assert (report.entries, report.broken) == (6 if readable else 3, None)


def pending(approval_id: str) -> StoredApproval:
    """Returns an approval that a client requested."""
    view = ApprovalView("exec", "ls", "gateway", "/", "main", "agent:main:main", "on-miss")
    return StoredApproval(
        approval_id, ApprovalState.PENDING, "f", None, view, NOW, NOW + EXPIRES_MS
    )


async def test_a_tool_of_a_server_that_is_held_stays_held_after_a_restore(tmp_path: Path) -> None:
    backup = await backed_up_before(tmp_path)
    known, present = (ListedTool("t", text, {}, text) for text in ("known", "changed"))
    held = [StoredTool("changed", known, present), StoredTool("new", None, present)]
    async with open_store(tmp_path / DATABASE) as store:
        for tool in held:
            await store.write(partial(mcp_tables.put, server="s", tool=tool))
    restore(tmp_path, backup, NOW)
    async with open_store(tmp_path / DATABASE) as store:
        assert await store.read(lambda reader: mcp_tables.stored(reader, "s")) == held


async def backed_up_before(state_dir: Path) -> Backup:
    """Returns a backup of a new database."""
    async with open_store(state_dir / DATABASE):
        return backups.create(state_dir, BackupKind.MANUAL, NOW)
