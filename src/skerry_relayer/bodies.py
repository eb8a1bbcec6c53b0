"""Parses the JSON bodies of requests into typed values, and checks their limits."""

import math
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request

from .errors import ForbiddenError, RefusedError
from .ports import WIDTH, Caller, Query, Sort, Weights

MAX_TEXT: Final = 1_048_576
"""Maximum size of a text to remember, in UTF-8 bytes."""

MAX_ANALYZED: Final = 65_536
"""Maximum size of a text to analyze or embed, and of a question, in UTF-8 bytes."""

MAX_NAMESPACE: Final = 255
MAX_ITEMS: Final = 20
MAX_HITS: Final = 100
MAX_WEIGHT: Final = 100.0
_MIN_HALF_LIFE: Final = 1e-6

T = TypeVar("T")


class ShapeError(Exception):
    """Error: a body is not the JSON of the route; answered as plain text with `status`."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class RememberBody(msgspec.Struct):
    """Body of `/api/remember`, and an item of `/api/remember/bulk`."""

    text: str
    namespace: str = "default"
    idempotency_key: str | None = None


class BulkBody(msgspec.Struct):
    """Body of `/api/remember/bulk`."""

    items: list[RememberBody]
    idempotency_key: str | None = None


class JobsBody(msgspec.Struct):
    """Body of `/api/remember/bulk/status`."""

    job_ids: list[str]


class ManualBody(msgspec.Struct):
    """Body of `/api/remember/manual`."""

    encrypted_data: str
    vector: list[float]
    namespace: str = "default"


class WeightsBody(msgspec.Struct):
    """`scoring_weights` of a question."""

    semantic: float = 1.0
    recency: float = 0.0
    recency_half_life_days: float = 30.0
    importance: float = 0.0


class RecallBody(msgspec.Struct):
    """Body of `/api/recall`."""

    query: str
    limit: int = 10
    namespace: str = "default"
    scoring_weights: WeightsBody | None = None
    sort: Sort = "relevance"


class VectorBody(msgspec.Struct):
    """Body of `/api/recall/manual`."""

    vector: list[float]
    limit: int = 10
    namespace: str = "default"
    scoring_weights: WeightsBody | None = None


class AnalyzeBody(msgspec.Struct):
    """Body of `/api/analyze`."""

    text: str
    namespace: str = "default"
    occurred_at: str | None = None
    idempotency_key: str | None = None
    """Extension of the protocol: two requests with the same key store a fact once."""


class AskBody(msgspec.Struct):
    """Body of `/api/ask`."""

    question: str
    limit: int = 5
    namespace: str = "default"
    scoring_weights: WeightsBody | None = None


class RestoreBody(msgspec.Struct):
    """Body of `/api/restore`."""

    namespace: str
    limit: int = 10


class NamespaceBody(msgspec.Struct):
    """Body of `/api/forget` and `/api/stats`."""

    namespace: str = "default"


class IdsBody(msgspec.Struct):
    """Body of `/api/memories/forget`."""

    ids: list[str]


class TextBody(msgspec.Struct):
    """Body of `/api/embed`."""

    text: str


def parse(request: Request, body: bytes, kind: type[T]) -> T:
    """Returns `body` as `kind`.

    Raises:
        ShapeError: 415 without a JSON content type, 400 for invalid JSON, 422 for a field that
            is missing or of another type.

    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json" and not (
        media.startswith("application/") and media.endswith("+json")
    ):
        raise ShapeError(415, "Expected request with `Content-Type: application/json`")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise ShapeError(422, f"Failed to deserialize the JSON body: {error}") from None
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise ShapeError(400, "Failed to parse the request body as JSON") from None


def text(value: str, name: str, max_bytes: int = MAX_TEXT) -> str:
    """Returns a text that is not blank and has at most `max_bytes` bytes."""
    if not value.strip():
        raise RefusedError(f"{name} cannot be empty")
    if size(value) > max_bytes:
        raise RefusedError(f"{name} exceeds maximum length of {max_bytes} bytes")
    return value


def size(value: str) -> int:
    """Returns the size of a text in UTF-8 bytes."""
    return len(value.encode())


def namespace(value: str, caller: Caller) -> str:
    """Returns a namespace that the caller may use. Raises `RefusedError` and `ForbiddenError`."""
    if not 1 <= size(value) <= MAX_NAMESPACE:
        raise RefusedError(f"namespace must have 1 to {MAX_NAMESPACE} bytes")
    if caller.namespaces is not None and value not in caller.namespaces:
        raise ForbiddenError("this key has no right to the namespace")
    return value


def key(value: str | None) -> str | None:
    """Returns an idempotency key of 1 to 255 bytes, or None."""
    if value is not None and not 1 <= size(value) <= MAX_NAMESPACE:
        raise RefusedError(f"idempotency_key must have 1 to {MAX_NAMESPACE} bytes")
    return value


def limit(value: int) -> int:
    """Returns a number of hits from 1 to `MAX_HITS`."""
    if value < 1:
        raise RefusedError("limit must be at least 1")
    return min(value, MAX_HITS)


def listed(values: Sequence[Any], name: str) -> Sequence[Any]:
    """Returns a list of 1 to `MAX_ITEMS` values."""
    if not 1 <= len(values) <= MAX_ITEMS:
        raise RefusedError(f"{name} must have 1 to {MAX_ITEMS} entries, not {len(values)}")
    return values


def vector(values: list[float]) -> tuple[float, ...]:
    """Returns a vector of `WIDTH` finite numbers that are not all zero."""
    if len(values) != WIDTH:
        raise RefusedError(f"vector must have {WIDTH} numbers, not {len(values)}")
    if not all(map(math.isfinite, values)):
        raise RefusedError("vector must have finite numbers")
    if not any(values):
        raise RefusedError("vector must have a number that is not zero")
    return tuple(values)


def weights(body: WeightsBody | None) -> Weights:
    """Returns the weights of a question. Raises `RefusedError` that names an invalid field."""
    if body is None:
        return Weights()
    named = {
        "semantic": body.semantic,
        "recency": body.recency,
        "importance": body.importance,
    }
    for name, value in named.items():
        if not (math.isfinite(value) and 0 <= value <= MAX_WEIGHT):
            raise RefusedError(f"scoring_weights.{name} must be a number from 0 to 100")
    days = body.recency_half_life_days
    if not math.isfinite(days) or (body.recency > 0 and days < _MIN_HALF_LIFE):
        raise RefusedError("scoring_weights.recency_half_life_days must be at least 0.000001")
    return Weights(body.semantic, body.recency, days, body.importance)


def question(body: RecallBody | AskBody, caller: Caller) -> Query:
    """Returns the query of `/api/recall` or `/api/ask`."""
    words = body.query if isinstance(body, RecallBody) else body.question
    name = "query" if isinstance(body, RecallBody) else "question"
    return Query(
        namespace=namespace(body.namespace, caller),
        limit=limit(body.limit),
        text=text(words, name, MAX_ANALYZED),
        weights=weights(body.scoring_weights),
        sort=body.sort if isinstance(body, RecallBody) else "relevance",
    )
