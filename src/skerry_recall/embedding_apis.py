"""Wire formats of the embedding APIs: OpenAI and compatible ones, Voyage, Gemini (pure)."""

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
    """One vector per text, as received."""
    tokens: int | None
    """Billed tokens; None if it does not report them."""


class Wire(Protocol):
    """Wire format of one API."""

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
            EmbeddingAnswerError: it is cut off, or not in this format.
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
    """`POST /embeddings` of OpenAI and compatible servers."""

    limits = ModelLimits(text_tokens=8000)

    def path(self, model: str) -> str:  # noqa: ARG002 - the body names the model
        """Returns the path after the base address."""
        return "/embeddings"

    def headers(self, key: str) -> Mapping[str, str]:
        """Returns the headers that carry the key."""
        return {"authorization": f"Bearer {key}"}

    def body(self, model: str, texts: Sequence[str], kind: Kind) -> dict[str, Any]:  # noqa: ARG002 - its models have one role
        """Returns the request."""
        # The API refuses an empty text; a space replaces it.
        return {
            "model": model,
            "input": [text or " " for text in texts],
            "encoding_format": "float",
        }

    def answer(self, body: bytes) -> Answer:
        """Parses the response."""
        response = _decoded(body, OpenAiAnswer)
        response.data.sort(key=lambda row: row.index)
        if [row.index for row in response.data] != list(range(len(response.data))):
            raise EmbeddingAnswerError("the indexes in the response do not match the texts")
        return Answer(matrix([row.embedding for row in response.data]), response.usage.total_tokens)


class VoyageWire(OpenAiWire):
    """OpenAI's format with the role of the texts."""

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
        response = _decoded(body, _GeminiAnswer)
        rows = matrix([embedding.values for embedding in response.embeddings])
        return Answer(rows, response.usage_metadata.prompt_token_count)


def _decoded(body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except (ValueError, RecursionError) as error:
        raise EmbeddingAnswerError(f"the response cannot be parsed: {error}") from error


def matrix(rows: Sequence[list[float | None] | None]) -> Doubles:
    """Returns the rows of a response; a missing row, or one of a rare size, is all zeros."""
    sizes = Counter(len(row) for row in rows if row)
    size = sizes.most_common(1)[0][0] if sizes else 0
    zeros: list[float | None] = [0.0] * size
    sound = [row if row is not None and len(row) == size else zeros for row in rows]
    return np.array(sound, np.float64).reshape(len(rows), size)
