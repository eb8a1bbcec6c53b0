"""Formats of the embedding APIs of OpenAI, which many share, of Voyage and Gemini (pure)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import msgspec

from skerry_recall.embed import EmbeddingAnswerError, Kind
from skerry_recall.lengths import ModelLimits
from skerry_recall.numbers import Doubles, np

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """Response of a provider."""

    rows: Doubles
    """One vector a text, as it gave them."""
    tokens: int | None
    """Billed tokens; None if it does not report them."""


class Wire(Protocol):
    """One of the APIs."""

    @property
    def limits(self) -> ModelLimits:
        """Returns the limits of one request."""
        ...

    def path(self, model: str) -> str:
        """Returns the path after the base address."""
        ...

    def headers(self, key: str) -> Mapping[str, str]:
        """Returns the headers that carry the key."""
        ...

    def body(self, model: str, texts: Sequence[str], kind: Kind) -> dict[str, Any]:
        """Returns the request."""
        ...

    def answer(self, body: bytes) -> Answer:
        """Parses the response.

        Raises:
            EmbeddingAnswerError: it is cut off, or something else.
        """
        ...


class _Row(msgspec.Struct):
    embedding: list[float | None] | None
    index: int


class _Usage(msgspec.Struct):
    total_tokens: int | None = None


class OpenAiAnswer(msgspec.Struct):
    """The response of `/embeddings`."""

    data: list[_Row]
    usage: _Usage = msgspec.field(default_factory=_Usage)


class OpenAiWire:
    """`POST /embeddings`, as OpenAI and those who are compatible with it speak it."""

    limits = ModelLimits(text_tokens=8000)

    def path(self, model: str) -> str:  # noqa: ARG002 - it stands in the body
        """Returns the path after the base address."""
        return "/embeddings"

    def headers(self, key: str) -> Mapping[str, str]:
        """Returns the headers that carry the key."""
        return {"authorization": f"Bearer {key}"}

    def body(self, model: str, texts: Sequence[str], kind: Kind) -> dict[str, Any]:  # noqa: ARG002 - its models embed both alike
        """Returns the request."""
        # An empty text is refused; a space says as much.
        return {
            "model": model,
            "input": [text or " " for text in texts],
            "encoding_format": "float",
        }

    def answer(self, body: bytes) -> Answer:
        """Parses the response."""
        told = _decoded(body, OpenAiAnswer)
        told.data.sort(key=lambda row: row.index)
        if [row.index for row in told.data] != list(range(len(told.data))):
            raise EmbeddingAnswerError("the answer does not say which vector is which text's")
        return Answer(matrix([row.embedding for row in told.data]), told.usage.total_tokens)


class VoyageWire(OpenAiWire):
    """OpenAI's form, with what a text is for."""

    def body(self, model: str, texts: Sequence[str], kind: Kind) -> dict[str, Any]:
        """Returns the request."""
        role = "query" if kind is Kind.QUERY else "document"
        return {"model": model, "input": [text or " " for text in texts], "input_type": role}


class _Values(msgspec.Struct):
    values: list[float | None] | None = None


class _GeminiUsage(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None


class _GeminiAnswer(msgspec.Struct, rename="camel"):
    embeddings: list[_Values]
    usage_metadata: _GeminiUsage = msgspec.field(default_factory=_GeminiUsage)


class GeminiWire:
    """`POST /models/<model>:batchEmbedContents`: several texts in one synchronous request."""

    limits = ModelLimits(text_tokens=2048)
    _DIMS: Final = 768
    """Number of dimensions of text-embedding-004; the newer models accept it."""

    def path(self, model: str) -> str:
        """Returns the path after the base address."""
        return f"/models/{model}:batchEmbedContents"

    def headers(self, key: str) -> Mapping[str, str]:
        """Returns the headers that carry the key."""
        return {"x-goog-api-key": key}

    def body(self, model: str, texts: Sequence[str], kind: Kind) -> dict[str, Any]:
        """Returns the request."""
        task = "RETRIEVAL_QUERY" if kind is Kind.QUERY else "RETRIEVAL_DOCUMENT"
        return {
            "requests": [
                {
                    "model": f"models/{model}",
                    "content": {"parts": [{"text": text or " "}]},
                    "taskType": task,
                    "outputDimensionality": self._DIMS,
                }
                for text in texts
            ]
        }

    def answer(self, body: bytes) -> Answer:
        """Parses the response."""
        told = _decoded(body, _GeminiAnswer)
        rows = matrix([embedding.values for embedding in told.embeddings])
        return Answer(rows, told.usage_metadata.prompt_token_count)


def _decoded(body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except (ValueError, RecursionError) as error:
        raise EmbeddingAnswerError(f"the answer cannot be read: {error}") from error


def matrix(rows: Sequence[list[float | None] | None]) -> Doubles:
    """Returns the rows of an answer; one of another size than most, or missing, is all zeros."""
    sizes = Counter(len(row) for row in rows if row)
    size = sizes.most_common(1)[0][0] if sizes else 0
    nothing: list[float | None] = [0.0] * size
    sound = [row if row is not None and len(row) == size else nothing for row in rows]
    return np.array(sound, np.float64).reshape(len(rows), size)
