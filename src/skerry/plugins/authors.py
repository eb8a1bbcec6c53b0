"""Author of a hook's files, and the origins of the untrusted text that the author had read."""

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
"""Author of a file whose hash is pinned in the configuration."""
_WRITERS: Final = {
    "": "its writer is unknown",
    GATEWAY: "a person at the gateway",
    HAND: "by hand, outside the gateway",
    OWNER: "confirmed by the owner",
    PIN: "pinned by its hash",
}


@dataclass(frozen=True, slots=True)
class HookFile:
    """One file of a hook in its present state."""

    name: str
    sha256: str
    writer: str = ""
    """Session key, `gateway`, `owner`, `hand` or `pin`; empty when unknown."""
    origins: tuple[str, ...] = ()
    """Origins other than the owner of the text that the author had read."""
    doubt: str = ""
    """Reason not to trust the file as the owner's; empty when it is trusted."""

    @property
    def author_text(self) -> str:
        """Returns a text about the author, for people."""
        by = _WRITERS.get(self.writer, f"written by {self.writer}")
        if not self.origins:
            return f"{self.name}: {by}"
        return f"{self.name}: {by}, which had read text from others ({', '.join(self.origins)})"


def author(
    path: Path, data: bytes, records: FileRecords, pinned: str | None, *, is_loaded: bool
) -> HookFile:
    """Returns the file with its author.

    Args:
        path: Canonical absolute path.
        data: Content of the file.
        records: Records of written files.
        pinned: Hash in the configuration; None for none.
        is_loaded: True when the file is about to be loaded; then a file without a record gets one
            that it was written by hand.
    """
    digest = sha256(data)
    record: FileRecord | None = records.matching(str(path), digest.digest())
    if pinned == digest.hexdigest():
        origins = tuple(sorted(record.taint)) if record else ()
        return HookFile(path.name, digest.hexdigest(), PIN, origins)
    if is_loaded:
        record = records.loaded(str(path), digest.digest(), len(data))
    if record is None:
        return HookFile(path.name, digest.hexdigest())
    file = FileSubject(FileKind.LOADED, str(path), taint=record.taint)
    decision = decide(Request(OWNER_ACTOR, Verb.OBEY, file=file))
    origins = tuple(sorted(record.taint))
    return HookFile(path.name, digest.hexdigest(), record.writer, origins, decision.reason)
