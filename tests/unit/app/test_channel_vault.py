"""Secret state of accounts: the key file, what happens when the database goes back, and limits."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from skerry.app.channel_vault import MAX_BYTES, StoreVault
from skerry.ports.vault import VaultEntry
from skerry.store import DATABASE, Store, backups, channel_secrets, open_store, restore
from skerry.store.backups import BackupKind


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "state.sqlite") as store:
        yield store


def vault(store: Store, folder: Path, account: str = "default") -> StoreVault:
    return StoreVault(store, "matrix", account, folder / "matrix" / f"{account}.key")


async def test_the_key_is_in_a_private_file_and_stays(store: Store, tmp_path: Path) -> None:
    opened = await vault(store, tmp_path).open()
    assert (opened.is_new, opened.is_behind, len(opened.key)) == (True, False, 32)
    file = tmp_path / "matrix" / "default.key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    await vault(store, tmp_path).write([VaultEntry("a", "b", b"c")])
    again = await vault(store, tmp_path).open()
    assert (again.is_new, again.is_behind, again.key) == (False, False, opened.key)
    assert (await vault(store, tmp_path, "other").open()).key != opened.key


async def test_values_are_kept_by_account_and_an_empty_one_deletes(
    store: Store, tmp_path: Path
) -> None:
    ours, theirs = vault(store, tmp_path), vault(store, tmp_path, "other")
    await ours.write(
        [
            VaultEntry("kind", "one", b"1"),
            VaultEntry("kind", "two", b"2"),
            VaultEntry("k", "one", b"3"),
        ]
    )
    assert await ours.read("kind", "one") == b"1"
    assert await theirs.read("kind", "one") == b""
    assert await theirs.every("kind") == []
    await ours.write([VaultEntry("kind", "one", b"4"), VaultEntry("k", "one", b"")])
    assert await ours.every("kind") == [("one", b"4"), ("two", b"2")]
    assert await ours.read("k", "one") == b""


async def test_only_the_newest_of_a_kind_are_kept(store: Store, tmp_path: Path) -> None:
    ours = vault(store, tmp_path)
    await ours.write([VaultEntry("other", "x", b"1")])
    for number in range(5):
        await ours.write([VaultEntry("kind", f"{number}", b"1")], {"kind": 3, "other": 1})
    assert [name for name, _ in await ours.every("kind")] == ["2", "3", "4"]
    assert await ours.read("other", "x") == b"1"


async def test_a_value_that_is_too_large_writes_nothing(store: Store, tmp_path: Path) -> None:
    ours = vault(store, tmp_path)
    large = VaultEntry("kind", "large", bytes(MAX_BYTES + 1))
    with pytest.raises(ValueError, match="matrix/default: kind large has 4000001 bytes"):
        await ours.write([VaultEntry("kind", "small", b"1"), large])
    assert await ours.every("kind") == []


async def test_a_database_that_went_back_is_behind_until_it_is_renewed(
    store: Store, tmp_path: Path
) -> None:
    ours = vault(store, tmp_path)
    key = (await ours.open()).key
    for number in range(3):
        await ours.write([VaultEntry("kind", "one", f"{number}".encode())])
    await store.write(lambda unit: channel_secrets.advance(unit, "matrix", "default", 1))
    assert (await ours.open()).is_behind
    await ours.write([VaultEntry("kind", "two", b"2")])
    renewed = await ours.renew()
    assert renewed.key == key
    assert await ours.every("kind") == []
    assert not (await ours.open()).is_behind


async def test_what_a_restore_brings_back_is_behind_even_of_the_same_day(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        await vault(store, tmp_path).open()
        await vault(store, tmp_path).write([VaultEntry("kind", "one", b"1")])
    backup = backups.create(tmp_path, BackupKind.MANUAL, 1)
    restore.restore(tmp_path, backup, 2)
    async with open_store(tmp_path / DATABASE) as store:
        assert (await vault(store, tmp_path).open()).is_behind
        assert await vault(store, tmp_path).read("kind", "one") == b"1"


async def test_a_lost_or_broken_key_file_is_rebuilt(store: Store, tmp_path: Path) -> None:
    ours = vault(store, tmp_path)
    key = (await ours.open()).key
    await ours.write([VaultEntry("kind", "one", b"1")])
    ours.file.write_text("no key")
    opened = await ours.open()
    assert opened.is_new
    assert opened.key != key
    assert not (await ours.open()).is_behind
