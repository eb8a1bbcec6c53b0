"""The state of a memory and the report of an index job, as clients and scripts get them (pure)."""

from typing import Any

from msgspec.structs import asdict

from skerry.model.memory import MemoryFallback, MemoryStatus, SyncReport


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
