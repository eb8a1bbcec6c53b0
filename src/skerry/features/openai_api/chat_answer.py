"""Answers of `POST /v1/chat/completions`: one object, or chunks (pure)."""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from skerry.features.openai_api.answer import event
from skerry.features.openai_api.api_errors import ApiError
from skerry.model.message import Usage
from skerry.model.run import RunResult

DONE: Final = b"data: [DONE]\n\n"


def chat_usage(usage: Usage) -> dict[str, Any]:
    """Returns the tokens of all model calls of a run."""
    read = usage.input + usage.cache_read + usage.cache_write
    return {
        "prompt_tokens": read,
        "completion_tokens": usage.output,
        "total_tokens": read + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
    }


def finish_reason(result: RunResult) -> str:
    """Returns the reason for the end of an answer."""
    return "length" if result.cut_off else "stop"


class ChatForm(Struct, frozen=True):
    """Form of the answer to one request. Implements `AnswerForm`."""

    id: str
    model: str
    """Name of the model in the request."""
    created: int
    """Seconds since 1970."""
    with_usage: bool = False
    """True to send the tokens at the end of a stream."""

    def whole(self, text: str, result: RunResult) -> dict[str, Any]:
        """Returns the answer as one object."""
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": None,
            "finish_reason": finish_reason(result),
        }
        return {
            **self._head("chat.completion"),
            "choices": [choice],
            "usage": chat_usage(result.usage),
        }

    def opening(self) -> Iterable[bytes]:
        """Returns the chunk that begins the message."""
        return (self._chunk({"role": "assistant", "content": "", "refusal": None}),)

    def delta(self, text: str) -> Iterable[bytes]:
        """Returns the chunk for added text."""
        return (self._chunk({"content": text}),)

    def closing(self, text: str, result: RunResult) -> Iterable[bytes]:
        """Returns the chunk with the reason of the end, the tokens if requested, and the mark."""
        del text
        yield self._chunk({}, finish_reason(result))
        if self.with_usage:
            head = self._head("chat.completion.chunk")
            yield event({**head, "choices": [], "usage": chat_usage(result.usage)})
        yield DONE

    def failure(self, error: ApiError) -> Iterable[bytes]:
        """Returns the event of an error, which OpenAI's clients raise."""
        return (event(error.body),)

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        usage = {"usage": None} if self.with_usage else {}
        return event({**self._head("chat.completion.chunk"), "choices": [choice], **usage})
