"""A relayer in this process whose memory and key server are in memory, and a client of it."""

import hashlib
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from skerry_relayer.app import make_app
from skerry_relayer.errors import KeyReusedError, NoCertificateError, RefusedError
from skerry_relayer.extract import Rules
from skerry_relayer.nonces import Nonces
from skerry_relayer.ports import (
    WIDTH,
    Account,
    After,
    Caller,
    Delegate,
    Hit,
    Item,
    Job,
    MemoryRow,
    NamespaceRow,
    Query,
    Recalled,
    Restored,
    Stats,
    Stored,
)
from skerry_relayer.rate_limits import RequestLimits
from skerry_relayer.relayer import Relayer
from skerry_relayer.sessions import address_of
from tests.support import memwal

NOW = 1795293231.0


def vector_of(text: str) -> tuple[float, ...]:
    """Returns the unit vector of the words of a text."""
    numbers = [0.0] * WIDTH
    for word in re.findall(r"\w+", text.casefold()):
        numbers[int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) % WIDTH] += 1.0
    size = sum(number * number for number in numbers) ** 0.5 or 1.0
    return tuple(number / size for number in numbers)


@dataclass(frozen=True)
class Row:
    """One memory."""

    id: str
    owner: str
    namespace: str
    blob: bytes
    text: str
    vector: tuple[float, ...]
    at: datetime
    importance: float = 0.5

    @property
    def blob_id(self) -> str:
        return hashlib.sha256(self.blob + self.id.encode()).hexdigest()[:43]


@dataclass
class Memory:
    """A `MemoryService` in lists."""

    clock: "Clock"
    rows: list[Row] = field(default_factory=list)
    work: dict[str, Job] = field(default_factory=dict)
    used_keys: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    is_ready: bool = True
    fault: Exception | None = None

    async def ready(self) -> bool:
        return self.is_ready

    async def remember(self, caller: Caller, items: Sequence[Item]) -> list[Job]:
        return [self._remember(caller, item) for item in items]

    def _remember(self, caller: Caller, item: Item) -> Job:
        content = item.namespace + "\0" + item.text
        if item.idempotency_key is not None:
            known = self.used_keys.get((caller.owner, item.idempotency_key))
            if known is not None and known[1] != content:
                raise KeyReusedError
            if known is not None:
                return self.work[known[0]]
        row = self._add(caller, item.namespace, item.text.encode(), item.text, item.importance)
        job = Job(str(uuid.uuid4()), "done", caller.owner, item.namespace, row.blob_id)
        self.work[job.id] = job
        if item.idempotency_key is not None:
            self.used_keys[caller.owner, item.idempotency_key] = (job.id, content)
        return replace(job, status="running")

    def _add(
        self, caller: Caller, namespace: str, blob: bytes, text: str, importance: float
    ) -> Row:
        now = datetime.fromtimestamp(self.clock(), UTC)
        row = Row(
            *(str(uuid.uuid4()), caller.owner, namespace, blob, text),
            *(vector_of(text), now, importance),
        )
        self.rows.append(row)
        return row

    async def jobs(self, caller: Caller, ids: Sequence[str]) -> list[Job | None]:
        found = [self.work.get(job_id) for job_id in ids]
        return [job if job and job.owner == caller.owner else None for job in found]

    async def remember_manual(
        self, caller: Caller, encrypted: bytes, vector: Sequence[float], namespace: str
    ) -> Stored:
        row = replace(self._add(caller, namespace, encrypted, "", 0.5), vector=tuple(vector))
        self.rows[-1] = row
        return Stored(row.id, row.blob_id)

    def _of(self, caller: Caller, namespace: str) -> list[Row]:
        return [r for r in self.rows if (r.owner, r.namespace) == (caller.owner, namespace)]

    async def recall(self, caller: Caller, query: Query) -> Recalled:
        if self.fault:
            raise self.fault
        if caller.certificate is None:
            raise NoCertificateError
        return self._near(caller, query, vector_of(query.text))

    async def recall_manual(self, caller: Caller, query: Query) -> Recalled:
        recalled = self._near(caller, query, query.vector)
        return Recalled(tuple(replace(hit, text="") for hit in recalled.hits))

    def _near(self, caller: Caller, query: Query, vector: Sequence[float]) -> Recalled:
        hits = [
            Hit(
                *(row.id, row.blob_id, row.text),
                *(1 - sum(a * b for a, b in zip(row.vector, vector, strict=True)), row.at),
                importance=row.importance,
                score=1.0 if query.weights.changes_order else None,
            )
            for row in self._of(caller, query.namespace)
        ]
        return Recalled(tuple(sorted(hits, key=lambda hit: hit.distance)[: query.limit]))

    async def embed(self, text: str) -> tuple[float, ...]:
        return vector_of(text)

    async def forget_namespace(self, caller: Caller, namespace: str) -> int:
        return await self.forget(caller, [row.id for row in self._of(caller, namespace)])

    async def forget(self, caller: Caller, ids: Sequence[str]) -> int:
        gone = [r for r in self.rows if r.owner == caller.owner and {r.id, r.blob_id} & set(ids)]
        self.rows = [row for row in self.rows if row not in gone]
        return len(gone)

    async def read(self, caller: Caller, ids: Sequence[str]) -> list[Hit]:
        if caller.certificate is None:
            raise NoCertificateError
        rows = {row.id: row for row in self.rows if row.owner == caller.owner}
        return [
            Hit(row.id, row.blob_id, row.text, 0.0, row.at)
            for row in (rows[row_id] for row_id in ids if row_id in rows)
            if caller.namespaces is None or row.namespace in caller.namespaces
        ]

    async def stats(self, caller: Caller, namespace: str) -> Stats:
        rows = self._of(caller, namespace)
        return Stats(len(rows), sum(len(row.blob) for row in rows))

    async def restore(self, caller: Caller, namespace: str, limit: int) -> Restored:
        rows = self._of(caller, namespace)
        return Restored(0, min(len(rows), limit), len(rows), truncated=len(rows) > limit)

    def _visible(self, caller: Caller) -> list[Row]:
        allowed = caller.namespaces
        return [
            row
            for row in self.rows
            if row.owner == caller.owner and (allowed is None or row.namespace in allowed)
        ]

    async def namespaces(
        self, caller: Caller, after: After | None, limit: int
    ) -> list[NamespaceRow]:
        names = sorted({row.namespace for row in self._visible(caller)})
        rows = [
            NamespaceRow(name, name, len(own), sum(len(r.blob) for r in own), own[-1].at)
            for name in names
            for own in [self._of(caller, name)]
        ]
        rows.sort(key=lambda row: (row.updated_at, row.name))
        begin = (after.updated_at, after.key) if after else None
        return [row for row in rows if begin is None or (row.updated_at, row.name) > begin][:limit]

    async def memories(self, caller: Caller, after: After | None, limit: int) -> list[MemoryRow]:
        rows = sorted(self._visible(caller), key=_position)
        begin = (after.updated_at, after.key) if after else None
        return [
            MemoryRow(row.id, row.namespace, row.blob_id, row.at, row.at, len(row.blob))
            for row in rows
            if begin is None or _position(row) > begin
        ][:limit]

    async def blob(self, blob_id: str) -> bytes | None:
        return next((row.blob for row in self.rows if row.blob_id == blob_id), None)


def _position(row: Row) -> tuple[datetime, str]:
    return row.at, row.id


@dataclass
class Keys:
    """A `KeyServer` in a dictionary."""

    package_id: str = "0x" + "cd" * 32
    accounts: dict[str, tuple[str, dict[str, Delegate]]] = field(default_factory=dict)
    fault: Exception | None = None

    def add(self, who: memwal.Delegate, namespaces: frozenset[str] | None = None) -> None:
        owner = "0x" + hashlib.sha256(who.account_id.encode()).hexdigest()
        _, delegates = self.accounts.setdefault(who.account_id, (owner, {}))
        key = who.public.hex()
        made = datetime.fromtimestamp(NOW, UTC)
        delegates[key] = Delegate(key, "test", address_of(who.public), made, namespaces)

    async def resolve(self, public_key: str, account_id: str | None) -> Account | None:
        if self.fault:
            raise self.fault
        asked = [account_id] if account_id else list(self.accounts)
        for name in asked:
            owner, delegates = self.accounts.get(name, ("", {}))
            if delegate := delegates.get(public_key):
                return Account(name, owner, delegate.label, delegate.namespaces)
        return None

    async def delegates(self, account_id: str) -> list[Delegate]:
        return list(self.accounts[account_id][1].values())

    async def add_delegate(
        self, account_id: str, public_key: str, label: str, namespaces: frozenset[str] | None
    ) -> Delegate:
        if public_key in self.accounts[account_id][1]:
            raise RefusedError("known")
        made = datetime.fromtimestamp(NOW, UTC)
        address = address_of(bytes.fromhex(public_key))
        row = Delegate(public_key, label, address, made, namespaces)
        self.accounts[account_id][1][public_key] = row
        return row

    async def revoke_delegate(self, account_id: str, public_key: str) -> bool:
        return self.accounts[account_id][1].pop(public_key, None) is not None


@dataclass
class Clock:
    """A clock that a test sets."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


class Lab:
    """A relayer with one account, its delegate `me`, and requests of the delegate."""

    def __init__(self, home: Path, *, limits: bool = False, **more: Any) -> None:
        self.clock = Clock()
        self.memory = Memory(self.clock)
        self.keys = Keys()
        self.me = memwal.Delegate()
        self.keys.add(self.me)
        self.relayer = Relayer(
            memory=self.memory,
            keys=self.keys,
            nonces=Nonces(home / "nonces.sqlite", "boot", self.clock()),
            limits=RequestLimits(on=limits),
            extractor=Rules(),
            clock=self.clock,
            **more,
        )
        transport = httpx2.ASGITransport(make_app(self.relayer))
        self.http = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000")

    @property
    def owner(self) -> str:
        return self.keys.accounts[self.me.account_id][0]

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        by: memwal.Delegate | None = None,
        session: bool = True,
        headers: dict[str, str] | None = None,
    ) -> httpx2.Response:
        """Sends a signed request; bytes as they are, other bodies as JSON."""
        content = b"" if body is None else body if isinstance(body, bytes) else encoded(body)
        signed = (by or self.me).headers(method, path, content, now=self.clock(), session=session)
        return await self.http.request(
            method, path, content=content, headers=signed | (headers or {})
        )

    async def post(self, path: str, body: object, **more: Any) -> httpx2.Response:
        return await self.send("POST", path, body, **more)

    async def get(self, path: str, **more: Any) -> httpx2.Response:
        return await self.send("GET", path, **more)


def encoded(body: object) -> bytes:
    return msgspec.json.encode(body)
