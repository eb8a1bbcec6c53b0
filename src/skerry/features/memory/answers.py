"""Converts values of the memory to the JSON that clients and scripts receive (pure)."""

from typing import Any

from msgspec.structs import asdict

from skerry.gateway.frames import Json
from skerry.model.memory import (
    MemoryFallback,
    MemoryFile,
    MemoryHit,
    MemoryProvenance,
    MemoryStatus,
    SyncReport,
)
from skerry.model.provenance import MARK
from skerry_recall.score_descriptions import SCORE_DESCRIPTIONS


def status_of(status: MemoryStatus) -> dict[str, Any]:
    """Returns the state, ready for JSON."""
    lacks = {source: (lacking, refused) for source, lacking, refused in status.lacking}
    return {
        "agentId": status.agent,
        "backend": status.backend,
        "files": status.files,
        "chunks": status.chunks,
        "vectors": status.vectors,
        "dirty": status.dirty,
        "indexedAt": status.indexed_at,
        "provider": status.provider,
        "model": status.model,
        "mode": status.mode.value,
        "fallback": _fallback(status.fallback),
        "sources": [
            {
                "source": source,
                "files": files,
                "chunks": chunks,
                "vectors": chunks - lacks.get(source, (0, 0))[0] if status.model else 0,
                "refused": lacks.get(source, (0, 0))[1],
            }
            for source, files, chunks in status.sources
        ],
        "backlog": None if status.backlog is None else asdict(status.backlog),
        "database": status.database,
        "notes": list(status.notes),
        "progress": None if status.progress is None else asdict(status.progress),
    }


def report_of(report: SyncReport, backend: str = "") -> dict[str, Any]:
    """Returns the report, ready for JSON; `backend` is the memory where the report names none."""
    failed = [{"path": path, "reason": reason} for path, reason in report.failed]
    return {
        **asdict(report),
        "failed": failed,
        "backend": report.backend or backend,
        "fallback": _fallback(report.fallback),
    }


def _fallback(fallback: MemoryFallback | None) -> dict[str, str] | None:
    return None if fallback is None else {"from": fallback.origin, "reason": fallback.reason}


def provenance(note: MemoryProvenance) -> dict[str, Json]:
    """Returns the provenance of a note, ready for JSON."""
    return {
        "id": note.id,
        "line": note.line,
        "origin": note.origin.value,
        "where": note.conversation,
        "at": note.at,
        "edited": note.is_edited,
    }


def file_row(file: MemoryFile) -> Json:
    """Returns a document of the memory, ready for JSON."""
    return {
        "path": file.path,
        "source": file.source.value,
        "size": file.size,
        "changedAt": file.changed_at,
        "day": file.day,
        "passages": file.passages,
        "vectors": file.vectors,
        "error": file.error or None,
        "sessionKey": file.session,
        "encoding": file.encoding or None,
    }


def hit_row(hit: MemoryHit) -> Json:
    """Returns a passage with its score, ready for JSON; the marks of notes are removed."""
    row: dict[str, Json] = {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "score": hit.score,
        "text": MARK.sub("", hit.text),
        "source": hit.source.value,
        "at": hit.at,
        "sessionKey": hit.session,
    }
    if hit.explanation:
        row["explanation"] = [
            {"name": name, "value": value, "means": SCORE_DESCRIPTIONS.get(name, "")}
            for name, value in hit.explanation
        ]
    return row
