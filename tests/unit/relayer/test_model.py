"""Extraction by a chat model over HTTP: its lines become facts, and its failures are a 503."""

import json
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from skerry_relayer.errors import DownError
from skerry_relayer.model import MAX_ANSWER, ChatModel, parse

AT = datetime(2026, 5, 20, 10, tzinfo=UTC)


class Server:
    """Answers as the API of a model and keeps the requests."""

    def __init__(self, content: object = "NONE", status: int = 200, raw: bytes = b"") -> None:
        self.content, self.status, self.raw = content, status, raw
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        body = {"choices": [{"message": {"role": "assistant", "content": self.content}}]}
        return httpx2.Response(self.status, content=self.raw or json.dumps(body).encode())

    def model(self) -> ChatModel:
        client = httpx2.AsyncClient(transport=httpx2.MockTransport(self))
        return ChatModel(client, "http://models.test/v1/", "small", "key")

    @property
    def sent(self) -> dict[str, Any]:
        sent: dict[str, Any] = json.loads(self.requests[-1].content)
        return sent


def test_lines_of_the_model_are_facts_with_weights() -> None:
    facts = parse("vital\tUser is vegan.\nodd\tUser runs.\n\nUser sings.\ntrivial\tUser sat.\nNONE")
    assert [(fact.text, fact.importance) for fact in facts] == [
        ("User is vegan.", 0.9),
        ("User runs.", 0.5),
        ("User sings.", 0.5),
        ("User sat.", 0.2),
    ]
    assert len(parse("a fact\n" * 50)) == 20


async def test_the_model_gets_related_memories_and_the_time_apart_from_the_text() -> None:
    server = Server("vital\tUser is vegan.")
    facts = await server.model().extract("I am vegan", AT, ["<b> & me", "x" * 500])
    assert [fact.text for fact in facts] == ["User is vegan."]
    request = server.requests[-1]
    assert str(request.url) == "http://models.test/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer key"
    system, related, context, text = server.sent["messages"]
    assert system["role"] == "system"
    assert "1. &lt;b&gt; &amp; me" in related["content"]
    assert f"2. {'x' * 400}\u2026" in related["content"]
    assert context["content"] == '<context occurred_at="2026-05-20T10:00:00+00:00"/>'
    assert text == {"role": "user", "content": "I am vegan"}


async def test_an_answer_comes_from_the_memories() -> None:
    server = Server("Tea.")
    assert await server.model().answer("What do I drink?", ["I drink tea"]) == "Tea."
    assert "1. I drink tea" in server.sent["messages"][1]["content"]
    assert await Server(" ").model().answer("?", []) == "No memory answers this question."


@pytest.mark.parametrize(
    "server",
    [
        pytest.param(Server(status=429), id="429"),
        pytest.param(Server(status=500), id="500"),
        pytest.param(Server(None), id="no-content"),
        pytest.param(Server(raw=b'{"error":"overloaded"}'), id="error-in-200"),
        pytest.param(Server(raw=b'{"choices":[]}'), id="no-choice"),
        pytest.param(Server(raw=b"<html>"), id="html"),
        pytest.param(Server(raw=b" " * (MAX_ANSWER + 1)), id="long"),
    ],
)
async def test_a_model_that_fails_is_down(server: Server) -> None:
    with pytest.raises(DownError):
        await server.model().extract("I am vegan", None, [])


async def test_a_model_that_is_not_there_is_down() -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(refuse))
    with pytest.raises(DownError):
        await ChatModel(client, "http://models.test/v1", "small").answer("?", [])
