"""The state of a memory and the report of an index job, as clients and scripts get them (pure)."""

from typing import Any

from msgspec.structs import asdict

from skerry.model.memory import MemoryStatus, SyncReport


def status_of(found: MemoryStatus) -> dict[str, Any]:
    """Return the state, ready for JSON."""
    fallback = found.fallback
    lacks = {source: (lacking, refused) for source, lacking, refused in found.lacking}
    return {
        "agentId": found.agent,
        "backend": found.backend,
        "files": found.files,
        "chunks": found.chunks,
        "vectors": found.vectors,
        "dirty": found.dirty,
        "indexedAt": found.indexed_at,
        "provider": found.provider,
        "model": found.model,
        "mode": found.mode.value,
        "fallback": fallback and {"from": fallback.origin, "reason": fallback.reason},
        "sources": [
            {
                "source": source,
                "files": files,
                "chunks": chunks,
                "vectors": chunks - lacks.get(source, (0, 0))[0] if found.model else 0,
                "refused": lacks.get(source, (0, 0))[1],
            }
            for source, files, chunks in found.sources
        ],
        "database": found.database,
        "notes": list(found.notes),
        "progress": None if found.progress is None else asdict(found.progress),
    }


def report_of(report: SyncReport) -> dict[str, Any]:
    """Return the report, ready for JSON."""
    failed = [{"path": path, "reason": reason} for path, reason in report.failed]
    return {**asdict(report), "failed": failed}
