"""Author of a hook's files, and the origins of the text that the author had read."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from skerry.policy.access import Verb
from skerry.policy.decide import OWNER as OWNER_ACTOR
from skerry.policy.decide import Request, decide
from skerry.policy.file_gate import GATEWAY
from skerry.policy.file_kinds import FileKind, FileSubject
from skerry.policy.file_records import HAND, OWNER, FileRecord, FileRecords

PIN: Final = "pin"
"""The writer, where the configuration has the hash of what the owner read."""
_WRITERS: Final = {
    "": "its writer is unknown",
    GATEWAY: "a person at the gateway",
    HAND: "by hand, outside the gateway",
    OWNER: "confirmed by the owner",
    PIN: "pinned by its hash",
}


@dataclass(frozen=True, slots=True)
class HookFile:
    """One file of a hook, as it is now."""

    name: str
    sha256: str
    writer: str = ""
    """A conversation, `gateway`, `owner`, `hand` or `pin`; empty where nothing tells."""
    origins: tuple[str, ...] = ()
    """Origins, beside the owner, of the text that the author had read."""
    doubt: str = ""
    """Reason why it does not count as the owner's; empty if it does."""

    @property
    def told(self) -> str:
        """Returns who wrote it, as a person reads it."""
        by = _WRITERS.get(self.writer, f"written by {self.writer}")
        if not self.origins:
            return f"{self.name}: {by}"
        return f"{self.name}: {by}, which had read words of others ({', '.join(self.origins)})"


def author(
    path: Path, data: bytes, records: FileRecords, pinned: str | None, *, seen: bool
) -> HookFile:
    """Returns who wrote a file with this content.

    Args:
        path: Canonical and absolute.
        data: What the file holds.
        records: What is known.
        pinned: The hash that the configuration has for it.
        seen: Whether the file is about to be loaded: what nothing tells of was then put there
            by hand, and is noted so.
    """
    digest = sha256(data)
    record: FileRecord | None = records.matching(str(path), digest.digest())
    if pinned == digest.hexdigest():
        origins = tuple(sorted(record.taint)) if record else ()
        return HookFile(path.name, digest.hexdigest(), PIN, origins)
    if seen:
        record = records.loaded(str(path), digest.digest(), len(data))
    if record is None:
        return HookFile(path.name, digest.hexdigest())
    file = FileSubject(FileKind.LOADED, str(path), taint=record.taint)
    decision = decide(Request(OWNER_ACTOR, Verb.OBEY, file=file))
    origins = tuple(sorted(record.taint))
    return HookFile(path.name, digest.hexdigest(), record.writer, origins, decision.reason)
