"""Delegates with certificates, and a memory in a folder, for tests of the relayer."""

import base64
import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from skerry_relayer.assembly import MemoryOptions, RunningMemory, opened
from skerry_relayer.blobs import FolderBlobs
from skerry_relayer.database import SqliteDatabase
from skerry_relayer.folders import DATABASE, Folders
from skerry_relayer.keys.registry import AccountRow, Registry, now_ms
from skerry_relayer.memories import Memories
from skerry_relayer.ports import Caller, Item, Job
from skerry_relayer.schema import SQLITE, steps
from skerry_relayer.sessions import Certificate, address_of
from skerry_relayer.upkeep import OwnerRewrap, RewrapReport

_CHARSET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


@dataclass(frozen=True)
class Delegate:
    """A delegate with its private key, as a client has it."""

    private: Ed25519PrivateKey
    account: AccountRow
    package_id: str

    @property
    def public_key(self) -> str:
        return self.private.public_key().public_bytes_raw().hex()

    def caller(self, *, ttl_min: int = 5, made_ms: int | None = None) -> Caller:
        header = certificate(self.private, self.package_id, ttl_min, made_ms)
        made = Certificate(
            header,
            self.public_key,
            address_of(bytes.fromhex(self.public_key)),
            self.package_id,
            0.0,
        )
        return Caller(self.public_key, self.account.id, self.account.owner, made)


def private_key(seed: int) -> Ed25519PrivateKey:
    """Returns the key of a seed, 0 to 255."""
    return Ed25519PrivateKey.from_private_bytes(bytes([seed] * 32))


def delegate(
    root: Path,
    account: AccountRow | None = None,
    *,
    seed: int = 1,
    namespaces: frozenset[str] | None = None,
) -> Delegate:
    """Adds a delegate to an account, or to a new one, as `key add` does."""
    private = private_key(seed)
    with Registry(Folders(root).keys) as registry:
        account = account or registry.add_account()
        public = private.public_key().public_bytes_raw().hex()
        registry.add_delegate(account.id, public, "test", namespaces)
        return Delegate(private, account, registry.package_id)


def certificate(
    private: Ed25519PrivateKey, package_id: str, ttl_min: int = 5, made_ms: int | None = None
) -> str:
    """Makes an `x-seal-session` header, as the official clients do."""
    public = private.public_key().public_bytes_raw()
    session = Ed25519PrivateKey.from_private_bytes(bytes([9] * 32))
    made_ms = now_ms() if made_ms is None else made_ms
    text = (
        f"Accessing keys of package {package_id} for {ttl_min} mins from "
        f"{datetime.fromtimestamp(made_ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC, session key "
        f"{base64.b64encode(session.public_key().public_bytes_raw()).decode()}"
    ).encode()
    length, rest = bytearray(), len(text)
    while rest > 0x7F:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    length.append(rest)
    digest = hashlib.blake2b(b"\3\0\0" + bytes(length) + text, digest_size=32).digest()
    signature = base64.b64encode(b"\0" + private.sign(digest) + public).decode()
    body = {
        "address": address_of(public),
        "packageId": package_id,
        "mvrName": None,
        "creationTimeMs": made_ms,
        "ttlMin": ttl_min,
        "personalMessageSignature": signature,
        "sessionKey": _bech32(b"\0" + session.private_bytes_raw()),
    }
    return base64.b64encode(json.dumps(body).encode()).decode()


def _bech32(data: bytes) -> str:
    bits = "".join(f"{byte:08b}" for byte in data)
    bits += "0" * (-len(bits) % 5)
    words = [int(bits[at : at + 5], 2) for at in range(0, len(bits), 5)]
    prefix = "suiprivkey"
    expanded = [ord(c) >> 5 for c in prefix] + [0] + [ord(c) & 31 for c in prefix]
    check = _polymod(expanded + words + [0] * 6) ^ 1
    words += [check >> 5 * (5 - number) & 31 for number in range(6)]
    return f"{prefix}1" + "".join(_CHARSET[word] for word in words)


def _polymod(values: list[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for position, part in enumerate(
            (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
        ):
            if top >> position & 1:
                check ^= part
    return check


def run_killed(root: Path, operation: str, point: str, database: str = "") -> None:
    """Runs an operation of `relayer_program` in a process of its own, which must die at a point."""
    command = [sys.executable, "-m", "tests.support.relayer_program"]
    command += [str(root), operation, point, database]
    completed = subprocess.run(command, check=False, timeout=120, capture_output=True)
    assert completed.returncode == -signal.SIGKILL, completed.stderr.decode()


@asynccontextmanager
async def memory(root: Path) -> AsyncIterator[RunningMemory]:
    """Runs the memory of a folder."""
    async with opened(MemoryOptions(root)) as parts:
        yield parts


async def rewrapped(root: Path, reach: Callable[[str], None] = lambda _: None) -> RewrapReport:
    """Rewraps all blobs of a folder without waiting for a relayer that may be sealing."""
    folders = Folders(root)
    with Registry(folders.keys) as registry:
        async with SqliteDatabase(folders.database / DATABASE, steps(SQLITE)) as database:
            stores = [FolderBlobs(folders.blobs)]
            return await OwnerRewrap(registry, database, stores, grace_seconds=0, reach=reach).run()


async def stored(memories: Memories, caller: Caller, text: str, namespace: str = "default") -> Job:
    """Remembers a text and waits until its job has ended."""
    (job,) = await memories.remember(caller, [Item(text, namespace)])
    return await ended(memories, caller, job.id)


async def ended(memories: Memories, caller: Caller, job_id: str) -> Job:
    """Waits until a job has ended; returns it."""
    with anyio.fail_after(60):
        while True:
            (job,) = await memories.jobs(caller, [job_id])
            assert job is not None
            if job.status in ("done", "failed"):
                return job
            await anyio.sleep(0.01)
