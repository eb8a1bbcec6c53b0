"""Registry of the key server: accounts, delegate keys, and the private keys of owners."""

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from skerry_relayer.envelope import SealKey
from skerry_relayer.errors import MissingError, RefusedError
from skerry_relayer.ports import Account, Delegate
from skerry_relayer.sessions import address_of
from skerry_relayer.sqlite_files import connect, migrate

FILE: Final = "registry.sqlite"
MAX_DELEGATES: Final = 20
MAX_NAMESPACES: Final = 100
LABEL_BYTES: Final = 64
NAMESPACE_BYTES: Final = 255
QUEUE: Final = "queue"
"""Owner name of the keys of waiting texts; no account has it."""
_ID_DIGITS: Final = 64
_KEY: Final = re.compile(r"[0-9a-f]{64}")

_STEPS: Final = (
    """
    CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE account (
        account_id TEXT PRIMARY KEY,
        owner TEXT NOT NULL UNIQUE,
        label TEXT NOT NULL,
        active BOOLEAN NOT NULL,
        tag_key BLOB NOT NULL,
        created_at INTEGER NOT NULL
    );
    CREATE TABLE delegate (
        account_id TEXT NOT NULL REFERENCES account (account_id),
        public_key TEXT NOT NULL,
        label TEXT NOT NULL,
        namespaces TEXT,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (account_id, public_key)
    );
    CREATE INDEX delegate_key ON delegate (public_key);
    CREATE TABLE private_key (
        owner TEXT NOT NULL,
        generation INTEGER NOT NULL,
        private BLOB NOT NULL,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (owner, generation)
    )
    """,
)


def now_ms() -> int:
    """Returns the time of the system in milliseconds."""
    return int(datetime.now(UTC).timestamp() * 1000)  # noqa: TID251 - the relayer's own clock


@dataclass(frozen=True, slots=True)
class AccountRow:
    """One account, for the operator."""

    id: str
    owner: str
    label: str
    active: bool
    created_at: datetime
    delegates: tuple[Delegate, ...]


class Registry:
    """Reads and changes the registry file; each call sees the commits of other processes.

    An object is used by one thread. Close it with `close`, or use it as a context manager.
    """

    def __init__(self, folder: Path, *, clock: Callable[[], int] = now_ms) -> None:
        self.path = folder / FILE
        self._clock = clock
        self._db = connect(self.path)
        migrate(self._db, _STEPS)
        with self._unit():
            self._db.execute(
                "INSERT INTO setting (name, value) VALUES ('package_id', ?)"
                " ON CONFLICT (name) DO NOTHING",
                (_new_id(),),
            )
            if self.seal_key(QUEUE) is None:
                self._draw(QUEUE, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    @property
    def package_id(self) -> str:
        """Returns the id that certificates name."""
        row = self._db.execute("SELECT value FROM setting WHERE name = 'package_id'").fetchone()
        return str(row[0])

    @contextmanager
    def _unit(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def add_account(self, label: str = "") -> AccountRow:
        """Makes an account with an owner and the owner's keys; it has no delegate yet."""
        _check_label(label)
        account_id, owner, now = _new_id(), _new_id(), self._clock()
        with self._unit():
            self._db.execute(
                "INSERT INTO account (account_id, owner, label, active, tag_key, created_at)"
                " VALUES (?, ?, ?, TRUE, ?, ?)",
                (account_id, owner, label, secrets.token_bytes(32), now),
            )
            self._draw(owner, 1)
        return AccountRow(account_id, owner, label, active=True, created_at=_at(now), delegates=())

    def accounts(self) -> list[AccountRow]:
        """Lists all accounts, oldest first."""
        rows = self._db.execute(
            "SELECT account_id, owner, label, active, created_at FROM account"
            " ORDER BY created_at, account_id"
        ).fetchall()
        return [
            AccountRow(
                id_,
                owner,
                label,
                active=bool(active),
                created_at=_at(created_at_ms),
                delegates=tuple(self.delegates(id_)),
            )
            for id_, owner, label, active, created_at_ms in rows
        ]

    def set_active(self, account_id: str, *, active: bool) -> None:
        """Activates or deactivates an account, from the next request on.

        Raises:
            MissingError: there is no such account.
        """
        changed = self._db.execute(
            "UPDATE account SET active = ? WHERE account_id = ?", (active, account_id)
        )
        if not changed.rowcount:
            raise MissingError(f"There is no account {account_id}. `key list` shows them.")

    def add_delegate(
        self,
        account_id: str,
        public_key: str,
        label: str = "",
        namespaces: frozenset[str] | None = None,
    ) -> Delegate:
        """Permits a key to use an account; with `namespaces`, only these namespaces.

        Raises:
            MissingError: there is no such account.
            RefusedError: the key is invalid, is known already, or exceeds the limit.
        """
        _check_label(label)
        _check_key(public_key)
        listed = None if namespaces is None else _checked_names(namespaces)
        now = self._clock()
        with self._unit():
            public_keys = {delegate.public_key for delegate in self.delegates(account_id)}
            if public_key in public_keys:
                raise RefusedError(f"Account {account_id} already has the key {public_key}.")
            if len(public_keys) >= MAX_DELEGATES:
                raise RefusedError(
                    f"Account {account_id} has {MAX_DELEGATES} keys, which is the maximum. "
                    "Revoke one first."
                )
            if self._account(account_id) is None:
                raise MissingError(f"There is no account {account_id}. `key list` shows them.")
            self._db.execute(
                "INSERT INTO delegate (account_id, public_key, label, namespaces, created_at)"
                " VALUES (?, ?, ?, ?, ?)",
                (
                    account_id,
                    public_key,
                    label,
                    None if listed is None else msgspec.json.encode(listed).decode(),
                    now,
                ),
            )
        address = address_of(bytes.fromhex(public_key))
        return Delegate(public_key, label, address, _at(now), namespaces)

    def revoke(self, account_id: str, public_key: str) -> bool:
        """Removes a key; returns False when the account has no such key."""
        changed = self._db.execute(
            "DELETE FROM delegate WHERE account_id = ? AND public_key = ?",
            (account_id, public_key),
        )
        return bool(changed.rowcount)

    def delegates(self, account_id: str) -> list[Delegate]:
        """Lists the keys of an account, oldest first."""
        rows = self._db.execute(
            "SELECT public_key, label, namespaces, created_at FROM delegate"
            " WHERE account_id = ? ORDER BY created_at, public_key",
            (account_id,),
        ).fetchall()
        return [
            Delegate(key, label, address_of(bytes.fromhex(key)), _at(created_at_ms), _names(names))
            for key, label, names, created_at_ms in rows
        ]

    def resolve(self, public_key: str, account_id: str | None) -> Account | None:
        """Returns the active account that has this key now, or None.

        Without `account_id` it is the only account with this key; None if two have it.
        """
        condition, bound = (
            ("", ()) if account_id is None else (" AND a.account_id = ?", (account_id,))
        )
        rows = self._db.execute(
            "SELECT a.account_id, a.owner, d.label, d.namespaces FROM delegate d"  # noqa: S608 - a constant
            " JOIN account a ON a.account_id = d.account_id"
            f" WHERE d.public_key = ? AND a.active{condition} LIMIT 2",
            (public_key, *bound),
        ).fetchall()
        if len(rows) != 1:
            return None
        id_, owner, label, names = rows[0]
        return Account(id_, owner, label, _names(names))

    def tag_key(self, owner: str) -> bytes | None:
        """Returns the key of the hashes of the owner's texts; None if there is no such owner."""
        row = self._db.execute("SELECT tag_key FROM account WHERE owner = ?", (owner,)).fetchone()
        return None if row is None else bytes(row[0])

    def seal_key(self, owner: str) -> SealKey | None:
        """Returns the public key for new texts of an owner or the queue; None for no owner."""
        row = self._db.execute(
            "SELECT generation, private FROM private_key WHERE owner = ?"
            " ORDER BY generation DESC LIMIT 1",
            (owner,),
        ).fetchone()
        if row is None:
            return None
        private = X25519PrivateKey.from_private_bytes(row[1])
        return SealKey(private.public_key().public_bytes_raw(), int(row[0]))

    def private_key(self, owner: str, generation: int) -> X25519PrivateKey | None:
        """Returns a private key; None if it was destroyed or never existed."""
        row = self._db.execute(
            "SELECT private FROM private_key WHERE owner = ? AND generation = ?",
            (owner, generation),
        ).fetchone()
        return None if row is None else X25519PrivateKey.from_private_bytes(row[0])

    def generations(self, owner: str) -> list[tuple[int, int]]:
        """Lists the owner's keys as (generation, creation time in ms), oldest first."""
        return self._db.execute(
            "SELECT generation, created_at FROM private_key WHERE owner = ? ORDER BY generation",
            (owner,),
        ).fetchall()

    def rotate(self, owner: str) -> int:
        """Generates the owner's next key; returns its generation.

        Raises:
            MissingError: there is no such owner.
        """
        with self._unit():
            newest = self.seal_key(owner)
            if newest is None:
                raise MissingError(f"There is no owner {owner}.")
            self._draw(owner, newest.generation + 1)
        return newest.generation + 1

    def drop_before(self, owner: str, generation: int) -> int:
        """Destroys the owner's keys older than a generation; returns their number."""
        dropped = self._db.execute(
            "DELETE FROM private_key WHERE owner = ? AND generation < ?", (owner, generation)
        ).rowcount
        self._db.execute(
            "PRAGMA wal_checkpoint(TRUNCATE)"
        )  # the write-ahead log contains the keys too
        return dropped

    def now(self) -> int:
        """Returns the time of the registry's clock in milliseconds."""
        return self._clock()

    def backup(self, target: Path) -> None:
        """Copies a consistent state of the registry to a new file."""
        with connect(target) as copy:
            self._db.backup(copy)
        copy.close()

    def _account(self, account_id: str) -> Sequence[str] | None:
        row: Sequence[str] | None = self._db.execute(
            "SELECT owner FROM account WHERE account_id = ?", (account_id,)
        ).fetchone()
        return row

    def _draw(self, owner: str, generation: int) -> None:
        self._db.execute(
            "INSERT INTO private_key (owner, generation, private, created_at) VALUES (?, ?, ?, ?)",
            (owner, generation, X25519PrivateKey.generate().private_bytes_raw(), self._clock()),
        )


def is_registry(folder: Path) -> bool:
    """Returns whether a registry was made in this folder."""
    return (folder / FILE).is_file()


def _new_id() -> str:
    return "0x" + secrets.token_hex(_ID_DIGITS // 2)


def _at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _names(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(msgspec.json.decode(text, type=list[str]))


def _checked_names(names: frozenset[str]) -> list[str]:
    if not 1 <= len(names) <= MAX_NAMESPACES:
        raise RefusedError(
            f"A key is limited to 1 to {MAX_NAMESPACES} namespaces, not {len(names)}."
        )
    for name in names:
        if not 1 <= len(name.encode("utf-8", "surrogatepass")) <= NAMESPACE_BYTES:
            raise RefusedError(
                f"The namespace {name[:40]!r} must have 1 to {NAMESPACE_BYTES} bytes."
            )
    return sorted(names)


def _check_label(label: str) -> None:
    if len(label.encode("utf-8", "surrogatepass")) > LABEL_BYTES:
        raise RefusedError(f"The label {label[:20]!r}... is longer than {LABEL_BYTES} bytes.")


def _check_key(public_key: str) -> None:
    refused = RefusedError(
        f"{public_key[:80]!r} is not an Ed25519 public key: 64 lower-case hex digits."
    )
    if not _KEY.fullmatch(public_key):
        raise refused
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
    except ValueError as error:
        raise refused from error
