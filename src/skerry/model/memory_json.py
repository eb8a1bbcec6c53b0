"""The state of a memory and the report of an index job, as clients and scripts get them (pure)."""

from typing import Any

from msgspec.structs import asdict

from skerry.model.memory import MemoryFallback, MemoryStatus, SyncReport


def status_of(found: MemoryStatus) -> dict[str, Any]:
    """Returns the state, ready for JSON."""
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
        "fallback": _fallback(found.fallback),
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
        "backlog": None if found.backlog is None else asdict(found.backlog),
        "database": found.database,
        "notes": list(found.notes),
        "progress": None if found.progress is None else asdict(found.progress),
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


def _fallback(found: MemoryFallback | None) -> dict[str, str] | None:
    return None if found is None else {"from": found.origin, "reason": found.reason}
