"""Converts jobs and runs to the form for clients."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from skerry.features.cron.jobs import Job, JobLogEntry


def job(value: Job, route: str = "") -> dict[str, Any]:
    """Returns a job; `route` is the present receiver of its reply."""
    answer: dict[str, Any] = msgspec.to_builtins(value)
    answer["state"] = msgspec.to_builtins(value.state)
    state = answer["state"]
    if value.state.last_status is not None:
        state["lastRunStatus"] = value.state.last_status
    answer["configRevision"] = revision([value])
    answer["effectiveAgentId"] = value.agent_id
    answer["deliveryPreview"] = preview(value, route)
    if value.state.next_run_at_ms is not None and value.enabled:
        answer["nextRunAtMs"] = value.state.next_run_at_ms
    elif not value.enabled:
        state.pop("nextRunAtMs", None)
    if value.state.last_run_at_ms is not None:
        answer["lastRunAtMs"] = value.state.last_run_at_ms
    return answer


def preview(value: Job, route: str) -> dict[str, str]:
    """Describes the receiver of a job's reply."""
    delivery = value.delivery
    if delivery is None or delivery.mode == "none":
        return {"label": "not requested", "detail": "not requested"}
    if delivery.mode == "webhook":
        return {"label": "webhook", "detail": delivery.to or ""}
    target = delivery.to and f"{delivery.channel}:{delivery.to}"
    if target:
        return {"label": f"announce -> {target}", "detail": target}
    detail = f"last -> {route}" if route else "last -> no chat yet; the run log has the reply"
    return {"label": "announce -> last", "detail": detail}


def entry(value: JobLogEntry) -> dict[str, Any]:
    """Returns an entry of the run log."""
    answer: dict[str, Any] = msgspec.to_builtins(value)
    answer["action"] = "finished"
    return answer


def entry_event(value: JobLogEntry) -> dict[str, Any]:
    """Returns the event about an ended run."""
    answer = entry(value)
    del answer["ts"]
    return answer


def revision(values: Sequence[Job]) -> str:
    """Returns a digest of the jobs, which changes when one of them is edited."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(f"{value.id} {value.updated_at_ms}\n".encode())
    return f"sha256:{digest.hexdigest()}"
