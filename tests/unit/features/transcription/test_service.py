"""Transcripts of recordings over a real server: requests, limits, failures, recorded usage."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.config.root import Config
from skerry.config.tools import ToolsConfig
from skerry.model.errors import BudgetError
from skerry.model.undelivered import MediaError
from skerry.ports.model_candidates import CallTarget, ModelCallEnded, ModelCandidate
from skerry.ports.transcription import Transcriber
from skerry.sdk.slots import open_transcriber
from skerry.testing.http_server import ServedRequest, ServedResponse, UploadedFile, serve

TARGET = CallTarget()


@dataclass
class Book:
    """Records the usage."""

    calls: list[ModelCallEnded] = field(default_factory=list)
    closed: str = ""

    def allow(self, target: CallTarget) -> None:
        del target
        if self.closed:
            raise BudgetError(self.closed)

    def begin(self, candidate: ModelCandidate, target: CallTarget) -> str:
        raise AssertionError(candidate, target)

    def book(self, call: ModelCallEnded) -> None:
        self.calls.append(call)


@dataclass
class Ear:
    """A server that answers each recording with the next of its answers."""

    answers: list[ServedResponse]
    asked: list[tuple[str, dict[str, str], dict[str, str | UploadedFile]]] = field(
        default_factory=list
    )
    root: str = ""
    slow: bool = False

    async def handle(self, request: ServedRequest) -> ServedResponse:
        if self.slow:
            await anyio.sleep_forever()
        self.asked.append((request.path, dict(request.headers), request.form()))
        return self.answers.pop(0)


@asynccontextmanager
async def ear(*answers: ServedResponse) -> AsyncGenerator[Ear]:
    heard = Ear(list(answers))
    async with serve(heard.handle) as heard.root:
        yield heard


def words(text: str, **more: Any) -> ServedResponse:
    return ServedResponse.of({"text": text, **more})


def opened(home: Path, book: Book, *models: dict[str, Any], **audio: Any) -> Transcriber:
    section = {"media": {"audio": {"models": models, **audio}}}
    config = Config(
        state_dir=home, path=home / "skerry.json", tools=ToolsConfig.model_validate(section)
    )
    made = open_transcriber(lambda: config, {"OPENAI_API_KEY": "sk-env"}, book)
    assert made is not None
    return made


async def test_the_bytes_go_to_the_model_and_its_words_come_back(tmp_path: Path) -> None:
    book = Book()
    async with ear(words(" high at nine ", usage={"seconds": 30})) as server:
        model = {
            "provider": "mine",
            "model": "whisper-1",
            "baseUrl": f"{server.root}/v1",
            "apiKey": "sk-own",
            "costPerMinute": 0.006,
        }
        hear = opened(tmp_path, book, model, language="en", prompt="Skerry")
        assert await hear.transcribe(b"OggS", "v.ogg", "audio/ogg", TARGET) == "high at nine"
        ((path, headers, form),) = server.asked
    assert path == "/v1/audio/transcriptions"
    assert headers["authorization"] == "Bearer sk-own"
    file = form.pop("file")
    assert isinstance(file, UploadedFile)
    assert (file.name, file.mime, file.data) == ("v.ogg", "audio/ogg", b"OggS")
    assert form == {
        "model": "whisper-1",
        "response_format": "json",
        "language": "en",
        "prompt": "Skerry",
    }
    (call,) = book.calls
    assert (call.provider, call.model, call.priced, call.error) == ("mine", "whisper-1", True, None)
    assert call.usage.cost.total == pytest.approx(0.003)


async def test_the_next_model_is_asked_when_one_fails(tmp_path: Path) -> None:
    book = Book()
    async with ear(ServedResponse(b"no", 500), words("hello")) as server:
        first = {"model": "a", "baseUrl": server.root}
        hear = opened(tmp_path, book, first, {"model": "b", "baseUrl": server.root})
        assert await hear.transcribe(b"x", "", "", TARGET) == "hello"
    assert [(call.model, call.error is None) for call in book.calls] == [("a", False), ("b", True)]
    assert not book.calls[1].priced, "nobody gave a price"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ServedResponse(b"", 401), "answered 401"),
        (ServedResponse(b"<html>", 200), "without a transcript"),
        (words("  "), "transcript is empty"),
    ],
)
async def test_a_failure_is_a_sentence(
    tmp_path: Path, answer: ServedResponse, message: str
) -> None:
    async with ear(answer) as server:
        hear = opened(tmp_path, Book(), {"model": "a", "baseUrl": server.root})
        with pytest.raises(MediaError, match=message):
            await hear.transcribe(b"x", "v.ogg", "audio/ogg", TARGET)


async def test_limits_of_size_time_and_budget(tmp_path: Path) -> None:
    book = Book()
    async with ear(words("y" * 200)) as server:
        model = {"model": "a", "baseUrl": server.root}
        hear = opened(tmp_path, book, model, maxBytes=1000, maxChars=100, timeoutSeconds=1)
        with pytest.raises(MediaError, match="the limit is 1000"):
            await hear.transcribe(b"x" * 1001, "", "", TARGET)
        cut = await hear.transcribe(b"x", "", "", TARGET)
        assert cut == "y" * 100 + " [the transcript was cut here]"
        server.slow = True
        with pytest.raises(MediaError, match=r"more than 1 s|cannot be reached"):
            await hear.transcribe(b"x", "", "", TARGET)
        book.closed = "The budget of today is used up."
        with pytest.raises(MediaError, match="used up"):
            await hear.transcribe(b"x", "", "", TARGET)
        assert len(server.asked) == 1


async def test_a_provider_that_nobody_knows_is_named(tmp_path: Path) -> None:
    hear = opened(tmp_path, Book(), {"model": "a", "provider": "nobody"})
    with pytest.raises(MediaError, match="unknown provider 'nobody'"):
        await hear.transcribe(b"x", "", "", TARGET)


def test_without_models_nobody_is_asked(tmp_path: Path) -> None:
    config = Config(state_dir=tmp_path, path=tmp_path / "skerry.json")
    assert open_transcriber(lambda: config, {"OPENAI_API_KEY": "sk-env"}, Book()) is None
