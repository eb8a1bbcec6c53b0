"""Answers of `POST /v1/responses`: one object, or numbered events (pure)."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from skerry.features.openai_api.answer import event
from skerry.features.openai_api.api_errors import ApiError
from skerry.model.message import Usage
from skerry.model.run import RunResult


def responses_usage(usage: Usage) -> dict[str, Any]:
    """Returns the tokens of all model calls of a run."""
    read = usage.input + usage.cache_read + usage.cache_write
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + usage.output,
    }


class ResponsesForm(Struct):
    """Form of the answer to one request. Implements `AnswerForm`; it counts its events."""

    run_id: str
    model: str
    """Name of the model in the request."""
    created: int
    """Seconds since 1970."""
    instructions: str | None = None
    previous: str | None = None
    """Id of the previous response."""
    _sequence: int = 0
    _text: str = ""

    def whole(self, text: str, result: RunResult) -> dict[str, Any]:
        """Returns the answer as one object."""
        status = "incomplete" if result.cut_off else "completed"
        reason = {"reason": "max_output_tokens"} if result.cut_off else None
        return {
            **self._response(status, [self._message(text, status)]),
            "incomplete_details": reason,
            "usage": responses_usage(result.usage),
        }

    def opening(self) -> Iterable[bytes]:
        """Returns the events that begin the response and its message."""
        response = self._response("in_progress", [])
        yield self._event("response.created", response=response)
        yield self._event("response.in_progress", response=response)
        item = {**self._message("", "in_progress"), "content": []}
        yield self._event("response.output_item.added", output_index=0, item=item)
        yield self._part("response.content_part.added", part=_part(""))

    def delta(self, text: str) -> Iterable[bytes]:
        """Returns the event for added text."""
        self._text += text
        return (self._part("response.output_text.delta", delta=text, logprobs=[]),)

    def closing(self, text: str, result: RunResult) -> Iterable[bytes]:
        """Returns the events that end the message and the response."""
        response = self.whole(text, result)
        status = response["status"]
        yield self._part("response.output_text.done", text=text, logprobs=[])
        yield self._part("response.content_part.done", part=_part(text))
        item = self._message(text, status)
        yield self._event("response.output_item.done", output_index=0, item=item)
        yield self._event(f"response.{status}", response=response)

    def failure(self, error: ApiError) -> Iterable[bytes]:
        """Returns the event of a failed response, with the text before the failure."""
        output = [self._message(self._text, "incomplete")] if self._text else []
        failed = {"code": error.code or "server_error", "message": str(error)}
        response = {**self._response("failed", output), "error": failed}
        yield self._event("response.failed", response=response)

    def _event(self, kind: str, **fields: Any) -> bytes:
        number = self._sequence
        self._sequence += 1
        return event({"type": kind, "sequence_number": number, **fields}, kind)

    def _part(self, kind: str, **fields: Any) -> bytes:
        item = self._item
        return self._event(kind, item_id=item, output_index=0, content_index=0, **fields)

    @property
    def _item(self) -> str:
        return f"msg_{self.run_id}"

    def _message(self, text: str, status: str) -> dict[str, Any]:
        return {
            "id": self._item,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": [_part(text)],
        }

    def _response(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"resp_{self.run_id}",
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": self.instructions,
            "metadata": {},
            "model": self.model,
            "output": output,
            "parallel_tool_calls": False,
            "previous_response_id": self.previous,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "usage": None,
        }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
