"""All SQL about blobs on Walrus: the network id of each blob, and the time of its upload."""

from collections.abc import Iterable, Sequence

import msgspec

from skerry_relayer.database import Unit


class WalrusBlob(msgspec.Struct, frozen=True):
    """A blob on the network."""

    owner: str
    blob_id: str
    """Local id: the hash of header and body."""
    walrus_id: str
    end_epoch: int
    stored_at: int
    """Time of the last upload, in milliseconds since 1970."""


def put(unit: Unit, stored: WalrusBlob) -> None:
    """Stores the network id of a blob; replaces an earlier one."""
    forget(unit, stored.owner, [stored.blob_id])
    unit.execute(
        "INSERT INTO walrus_blob (owner, blob_id, walrus_id, end_epoch, stored_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (stored.owner, stored.blob_id, stored.walrus_id, stored.end_epoch, stored.stored_at),
    )


def of_ids(unit: Unit, owner: str, ids: Sequence[str]) -> dict[str, WalrusBlob]:
    """Returns the blobs with these ids, by their ids."""
    blobs = (_row(unit, owner, blob_id) for blob_id in ids)
    return {stored.blob_id: stored for stored in blobs if stored is not None}


def ids_of(unit: Unit, owner: str) -> list[str]:
    """Returns the ids of all blobs of an owner."""
    rows = unit.all("SELECT blob_id FROM walrus_blob WHERE owner = ? ORDER BY blob_id", (owner,))
    return [row[0] for row in rows]


def before(unit: Unit, time: int, limit: int) -> list[WalrusBlob]:
    """Returns blobs whose last upload was before a time, the oldest first."""
    rows = unit.all(
        "SELECT owner, blob_id, walrus_id, end_epoch, stored_at FROM walrus_blob"
        " WHERE stored_at < ? ORDER BY stored_at LIMIT ?",
        (time, limit),
    )
    return [WalrusBlob(*row) for row in rows]


def forget(unit: Unit, owner: str, ids: Iterable[str]) -> None:
    """Deletes the network ids of blobs."""
    for blob_id in ids:
        unit.execute("DELETE FROM walrus_blob WHERE owner = ? AND blob_id = ?", (owner, blob_id))


def _row(unit: Unit, owner: str, blob_id: str) -> WalrusBlob | None:
    row = unit.first_row(
        "SELECT owner, blob_id, walrus_id, end_epoch, stored_at FROM walrus_blob"
        " WHERE owner = ? AND blob_id = ?",
        (owner, blob_id),
    )
    return None if row is None else WalrusBlob(*row)
