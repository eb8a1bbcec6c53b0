"""The pieces of an `openai-completions` stream, put together to one reply (pure)."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from skerry.model.errors import ModelOverloadedError, ModelRequestError, ModelStreamCutError
from skerry.model.message import TextBlock, ToolCall, Usage
from skerry.ports.model import ModelReply
from skerry.providers.failures import stream_failure

RAW_ARGUMENTS: Final = "_raw_arguments"
"""Key under which a tool call's arguments stand as text when they are no JSON object. No tool has
such a parameter, so its check of the arguments tells the model what it wrote."""


class _Part(msgspec.Struct):
    text: str | None = None


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _CallPiece(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | list[_Part] | None = None
    tool_calls: list[_CallPiece] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Piece(msgspec.Struct):
    id: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


_MOST_TOKENS: Final = 1 << 40

_decoder = msgspec.json.Decoder(_Piece)

TEXT_LIMIT: Final = 1024 * 1024
"""Characters of one answer, with its tool calls: more than any model means to say. Clients get the
text so far again and again, so an answer without end would cost its square."""


@dataclass(slots=True)
class _Call:
    """One tool call while its pieces come."""

    id: str
    name: str = ""
    arguments: str = ""


class ReplyBuilder:
    """Takes the data of each event in order, gives the text it added and at last the reply.

    `provider` is its name for people; `secret`, what no error may repeat.
    """

    def __init__(self, provider: str, secret: str | None = None) -> None:
        self._provider = provider
        self._secret = secret.encode() if secret else b""
        self._id = "call"
        self._text: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._usage = Usage()
        self._finish = ""
        self._size = 0

    @property
    def finished(self) -> bool:
        """Return whether the finish marker came; without it the answer is not whole."""
        return bool(self._finish)

    def take(self, data: bytes) -> str:
        """Return the text that an event added.

        Raises:
            ModelStreamCutError: the event is not readable.
            ModelError: it carries an error of the provider.
            ModelRequestError: the answer is longer than `TEXT_LIMIT`.
        """
        try:
            piece = _decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ModelStreamCutError(
                f"{self._provider} sent a piece of its answer that is not readable: {error}"
            ) from error
        said = bytes(piece.error)
        if said != b"null":
            if self._secret:
                said = said.replace(self._secret, b"***")
            raise stream_failure(said, self._provider)
        if piece.usage is not None:
            self._usage = _usage(piece.usage)
        return self._choice(piece.choices[0], piece.id) if piece.choices else ""

    def _choice(self, choice: _Choice, answer_id: str | None) -> str:
        self._finish = choice.finish_reason or self._finish
        delta = choice.delta
        if delta is None:
            return ""
        if delta.tool_calls:
            self._id = answer_id or self._id
            for piece in delta.tool_calls:
                self._add(piece)
        text = delta.content
        if not text:
            return ""
        if isinstance(text, list):  # Mistral's reasoning models: blocks, of which some are thinking
            text = "".join(part.text or "" for part in text)
        self._grow(len(text))
        self._text.append(text)
        return text

    def _add(self, piece: _CallPiece) -> None:
        call = self._slot(piece)
        function = piece.function or _Function()
        call.name = call.name or function.name or ""
        if isinstance(function.arguments, dict):
            arguments = msgspec.json.encode(function.arguments).decode()
        else:
            arguments = function.arguments or ""
        self._grow(len(arguments))
        call.arguments += arguments

    def _grow(self, characters: int) -> None:
        self._size += characters
        if self._size > TEXT_LIMIT:
            raise ModelRequestError(
                f"{self._provider} sent an answer of more than {TEXT_LIMIT} characters."
            )

    def _slot(self, piece: _CallPiece) -> _Call:
        """Return the call that the piece belongs to.

        By index, as the API says; but a new id opens a new call even where a server numbers all of
        them 0, or none.
        """
        if piece.index is not None:
            known = self._by_index.get(piece.index)
        else:
            known = self._calls[-1] if self._calls else None
        if known is None or (piece.id and piece.id != known.id):
            known = _Call(piece.id or f"{self._id}_{len(self._calls)}")
            self._calls.append(known)
        if piece.index is not None:
            self._by_index[piece.index] = known
        return known

    def reply(self) -> ModelReply:
        """Return the whole reply.

        Raises:
            ModelStreamCutError: the finish marker did not come.
            ModelOverloadedError: the provider gave up in the middle.
            ModelRequestError: its content filter stopped the answer; what came before it was given
                as text. A reply would pass for the whole answer.
        """
        if not self.finished:
            raise ModelStreamCutError(f"{self._provider} ended its answer without a finish marker.")
        if self._finish == "error":
            raise ModelOverloadedError(f"{self._provider} gave up in the middle of its answer.")
        if self._finish == "content_filter":
            raise ModelRequestError(f"The content filter of {self._provider} stopped the answer.")
        calls = [
            ToolCall(call.id, call.name, parse_arguments(call.arguments)) for call in self._calls
        ]
        text = "".join(self._text)
        said = (TextBlock(text),) if text else ()
        stop_reason = "length" if self._finish == "length" else "toolUse" if calls else "stop"
        return ModelReply((*said, *calls), stop_reason, self._usage)


def parse_arguments(text: str) -> dict[str, Any]:
    """Return a tool call's arguments; what is no JSON object stands under `RAW_ARGUMENTS`."""
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {RAW_ARGUMENTS: text}


def _usage(usage: _Usage) -> Usage:
    """Return our form: `input` without what was read from the provider's cache, which is apart."""
    prompt = _count(usage.prompt_tokens)
    output = _count(usage.completion_tokens)
    cached = _count((usage.prompt_tokens_details or _PromptDetails()).cached_tokens)
    return Usage(
        input=max(prompt - cached, 0),
        output=output,
        cache_read=cached,
        total_tokens=_count(usage.total_tokens) or prompt + output,
    )


def _count(said: int | None) -> int:
    """Return a number that the store can add up, whatever the server says."""
    return min(max(said or 0, 0), _MOST_TOKENS)
