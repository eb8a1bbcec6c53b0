"""Interfaces of the memory and of the key server for the HTTP routes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from .sessions import Certificate

Status = Literal["pending", "running", "uploaded", "done", "failed"]
Sort = Literal["relevance", "recent"]

WIDTH = 1536
"""Length of a vector in requests; shorter vectors are padded with zeros."""


@dataclass(frozen=True, slots=True)
class Account:
    """One account of the key server, with the rights of one of its delegates."""

    id: str
    """`0x` and 64 lower-case hex digits."""
    owner: str
    """Address of the owner, `0x` and 64 lower-case hex digits; all memories belong to it."""
    label: str = ""
    """Label of the delegate, not of the account."""
    namespaces: frozenset[str] | None = None
    """The namespaces that the delegate may use; None means all."""


@dataclass(frozen=True, slots=True)
class Delegate:
    """One delegate key of an account."""

    public_key: str
    label: str
    address: str
    """Address of the delegate: `0x` and blake2b-256 of a zero byte and the public key."""
    created_at: datetime
    namespaces: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """The verified sender of a signed request."""

    public_key: str
    account_id: str
    owner: str
    certificate: Certificate | None = None
    """The verified `x-seal-session`, without which no text is decrypted; None if it is missing."""
    namespaces: frozenset[str] | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """Job that processes one accepted text."""

    id: str
    status: Status
    owner: str
    namespace: str
    blob_id: str | None = None
    error: str | None = None
    """Error text for people, which contains no text of the memory."""


@dataclass(frozen=True, slots=True)
class Item:
    """One text to remember."""

    text: str
    namespace: str = "default"
    idempotency_key: str | None = None
    importance: float = 0.5
    """In [0, 1]: 0.9 vital, 0.5 standard, 0.2 trivial."""


@dataclass(frozen=True, slots=True)
class Weights:
    """`scoring_weights`: score = semantic*(1-d) + recency*2^(-age/half_life) + importance*imp."""

    semantic: float = 1.0
    recency: float = 0.0
    half_life_days: float = 30.0
    importance: float = 0.0

    @property
    def changes_order(self) -> bool:
        """True when a hit carries a `score` and hits are sorted by it."""
        return self.recency != 0 or self.importance != 0


@dataclass(frozen=True, slots=True)
class Query:
    """A question to the memory of one namespace."""

    namespace: str
    limit: int
    """1 to 100."""
    text: str = ""
    vector: tuple[float, ...] = ()
    """Vector for `recall_manual`, which has no text."""
    weights: Weights = Weights()
    sort: Sort = "relevance"


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory of an answer."""

    id: str
    blob_id: str
    text: str
    """Empty in answers of `recall_manual`, which decrypts nothing."""
    distance: float
    """Calibrated cosine distance: 0 for the same, 2 for the opposite."""
    created_at: datetime
    importance: float = 0.5
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Recalled:
    """Hits, best first, and the number of hits that could not be decrypted."""

    hits: tuple[Hit, ...]
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact that was extracted from a text."""

    text: str
    importance: float = 0.5


@dataclass(frozen=True, slots=True)
class Stored:
    """A memory that was encrypted by the client."""

    id: str
    blob_id: str


@dataclass(frozen=True, slots=True)
class Stats:
    """Size of one namespace; its bytes count ciphertext."""

    memory_count: int
    storage_bytes: int


@dataclass(frozen=True, slots=True)
class Restored:
    """Result of rebuilding index rows from blobs."""

    restored: int
    skipped: int
    total: int
    failed: int = 0
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class NamespaceRow:
    """One namespace of an owner."""

    id: str
    name: str
    memory_count: int
    storage_used: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Metadata of one memory, without its text."""

    id: str
    namespace: str
    blob_id: str
    created_at: datetime
    updated_at: datetime
    size: int
    agent_id: str | None = None
    package_id: str | None = None
    status: str = "active"
    end_epoch: int | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class After:
    """Position of a keyset page: rows later than (`updated_at`, `key`)."""

    updated_at: datetime
    key: str


class MemoryService(Protocol):
    """Stores and finds the memories of all owners.

    Raises `QuotaError`, `KeyReusedError`, `NoCertificateError` and `DownError` of `errors`. The
    right of the caller to the namespace was checked before; other owners' memories are invisible.
    """

    async def ready(self) -> bool:
        """Returns whether accepted texts currently become searchable."""
        ...

    async def remember(self, caller: Caller, items: Sequence[Item]) -> list[Job]:
        """Accepts 1 to 20 texts; returns their jobs in the same order, after they are durable.

        If the owner used the idempotency key of an item before, for the same text and namespace,
        the earlier job is returned; a failed job is restarted as "pending". For another text
        `KeyReusedError` is raised and no item is accepted.
        """
        ...

    async def jobs(self, caller: Caller, ids: Sequence[str]) -> list[Job | None]:
        """Returns the jobs of the caller's owner, in the order of `ids`; None for any other id."""
        ...

    async def remember_manual(
        self, caller: Caller, encrypted: bytes, vector: Sequence[float], namespace: str
    ) -> Stored:
        """Stores a blob that the client encrypted; returns when it is searchable."""
        ...

    async def recall(self, caller: Caller, query: Query) -> Recalled:
        """Finds memories by text. Raises `NoCertificateError` without a certificate."""
        ...

    async def recall_manual(self, caller: Caller, query: Query) -> Recalled:
        """Finds memories by vector; decrypts no text."""
        ...

    async def embed(self, text: str) -> tuple[float, ...]:
        """Returns the calibrated vector of `text`, `WIDTH` numbers."""
        ...

    async def forget_namespace(self, caller: Caller, namespace: str) -> int:
        """Deletes the memories, blobs and waiting jobs of a namespace; returns their number."""
        ...

    async def forget(self, caller: Caller, ids: Sequence[str]) -> int:
        """Deletes memories by memory id or blob id, with their blobs; returns their number."""
        ...

    async def read(self, caller: Caller, ids: Sequence[str]) -> list[Hit]:
        """Returns decrypted memories in the order of `ids`, at distance 0. Requires a certificate.

        Unknown ids and memories that cannot be decrypted are left out; the text is empty if the
        client encrypted it.
        """
        ...

    async def stats(self, caller: Caller, namespace: str) -> Stats:
        """Returns the size of a namespace."""
        ...

    async def restore(self, caller: Caller, namespace: str, limit: int) -> Restored:
        """Rebuilds index rows from the newest `limit` blobs. Requires a certificate."""
        ...

    async def namespaces(
        self, caller: Caller, after: After | None, limit: int
    ) -> list[NamespaceRow]:
        """Lists the caller's namespaces after `after`, in the order (`updated_at`, name)."""
        ...

    async def memories(self, caller: Caller, after: After | None, limit: int) -> list[MemoryRow]:
        """Lists metadata of the memories after `after`, in the order (`updated_at`, id)."""
        ...

    async def blob(self, blob_id: str) -> bytes | None:
        """Returns the ciphertext of a blob as it was stored, or None."""
        ...


class KeyServer(Protocol):
    """Decides by its registry which delegates may use which account.

    The methods for encryption and decryption, which only the memory uses, are not part of it.
    """

    @property
    def package_id(self) -> str:
        """The id in certificates: `0x` and 64 hex digits, generated once for each key server."""
        ...

    async def resolve(self, public_key: str, account_id: str | None) -> Account | None:
        """Returns the active account that has this delegate now, or None.

        With `account_id` only that account is checked; without it, the account that has the key.
        Raises `DownError` when the key server does not answer.
        """
        ...

    async def delegates(self, account_id: str) -> list[Delegate]:
        """Lists the delegate keys of an account, oldest first."""
        ...

    async def add_delegate(
        self, account_id: str, public_key: str, label: str, namespaces: frozenset[str] | None
    ) -> Delegate:
        """Adds a delegate. Raises `RefusedError` for a known key and above the limit of 20."""
        ...

    async def revoke_delegate(self, account_id: str, public_key: str) -> bool:
        """Removes a delegate; False when the account has no such key."""
        ...
