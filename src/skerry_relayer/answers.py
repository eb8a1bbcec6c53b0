"""Builds JSON responses, and responses for errors."""

import logging
import uuid
from datetime import UTC, datetime

import msgspec
from starlette.responses import Response

from .bodies import ShapeError
from .errors import DownError, NoCertificateError, RelayerError
from .ports import Hit, Job
from .signatures import RejectedError

logger = logging.getLogger(__name__)


def reply(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Returns a response with `value` as JSON."""
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def failure(error: Exception) -> Response:
    """Returns the response for an error; logs unexpected errors with an id."""
    match error:
        case RejectedError():
            reason = {"x-auth-error": error.reason} if error.reason else None
            return Response(b"", error.status, reason)
        case NoCertificateError():
            return Response(b"", 401)
        case ShapeError():
            return Response(error.text, error.status, media_type="text/plain")
        case DownError():
            return reply({"error": str(error)}, 503, {"retry-after": "5"})
        case RelayerError():
            return reply({"error": str(error)}, error.status)
        case _:
            trace = uuid.uuid4().hex[:16]
            logger.error("request failed (traceId: %s)", trace, exc_info=error)
            return reply({"error": f"Internal server error (traceId: {trace})"}, 500)


def stamp(time: datetime) -> str:
    """Returns a time as RFC 3339 in UTC, in microseconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def job_state(job: Job) -> dict[str, object]:
    """Returns the fields of both status routes."""
    state: dict[str, object] = {"job_id": job.id, "status": job.status}
    if job.blob_id is not None:
        state["blob_id"] = job.blob_id
    if job.error is not None:
        state["error"] = job.error
    return state


def hit(row: Hit) -> dict[str, object]:
    """Returns one result of `/api/recall`."""
    fields: dict[str, object] = {
        "id": row.id,
        "blob_id": row.blob_id,
        "text": row.text,
        "distance": row.distance,
        "created_at": stamp(row.created_at),
    }
    if row.score is not None:
        fields["score"] = row.score
    return fields


def bare_hit(row: Hit) -> dict[str, object]:
    """Returns one result of `/api/recall/manual`."""
    fields: dict[str, object] = {
        "blob_id": row.blob_id,
        "distance": row.distance,
        "created_at": stamp(row.created_at),
        "importance": row.importance,
    }
    if row.score is not None:
        fields["score"] = row.score
    return fields
