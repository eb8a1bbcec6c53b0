"""Chat completions over a real socket: answers, streams, conversations, and each key once."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from skerry.features.openai_api import answer, turns
from skerry.features.openai_api.chat_body import parsed
from skerry.model.message import AssistantMessage, ImageBlock, TextBlock, UserMessage
from skerry.model.origin import Origin
from skerry.model.thinking import ThinkingLevel
from skerry.testing.model import ReplyGate, ScriptedModel, echo
from tests.support.api_client import AUTH, chat_body, chunks, serving_api, streamed

PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+M8AAQUBAScY42Y"
    "AAAAASUVORK5CYII="
)


async def test_an_agent_answers_a_request(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "h") as api:
        response = await api(chat_body("hello"))
        assert response.status_code == 200
        value = response.json()
        assert (value["object"], value["model"]) == ("chat.completion", "skerry")
        assert value["choices"] == [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "echo: hello", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ]
        usage = value["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert usage["completion_tokens"] == 2
        key = response.headers["x-skerry-session-key"]
        message, answered = await api.transcript(key)
        assert isinstance(message, UserMessage)
        assert (message.text, message.origin) == ("hello", Origin.OWNER)
        assert isinstance(answered, AssistantMessage)
        run_id = response.headers["x-skerry-run-id"]
        assert value["id"] == f"chatcmpl-{run_id}"


async def test_a_stream_has_the_text_as_it_grows_and_the_tokens_if_requested(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    model = ScriptedModel([["Hel", gate, "lo"], ["bye"]])
    async with serving_api(tmp_path / "h", model) as api:
        async with await anyio.connect_tcp("127.0.0.1", api.port) as stream:
            options = {"include_usage": True}
            await api.send_raw(stream, chat_body("hi", stream=True, stream_options=options))
            received = b""
            with anyio.fail_after(60):
                while b'"Hel"' not in received:
                    received += await stream.receive()
                assert b"text/event-stream" in received
                gate.open()
                while b"[DONE]" not in received:
                    received += await stream.receive()
        text = received.decode().partition("\r\n\r\n")[2].replace("\r\n", "")
        assert '"content":"lo"' in text
        assert '"choices":[],"usage":{"prompt_tokens":' in text
        plain = await api(chat_body("hi", stream=True))
        assert streamed(plain.text) == "bye"
        assert all("usage" not in chunk for chunk in chunks(plain.text))
        first, last = chunks(plain.text)[0], chunks(plain.text)[-1]
        assert first["choices"][0]["delta"]["role"] == "assistant"
        assert last["choices"][0] == {
            "index": 0,
            "delta": {},
            "logprobs": None,
            "finish_reason": "stop",
        }


async def test_a_silent_stream_gets_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer, "QUIET_SECONDS", 0.05)
    gate = ReplyGate()
    async with serving_api(tmp_path / "h", ScriptedModel([[gate, "late"]])) as api:
        async with await anyio.connect_tcp("127.0.0.1", api.port) as stream:
            await api.send_raw(stream, chat_body("hi", stream=True))
            received = b""
            with anyio.fail_after(60):
                while received.count(answer.COMMENT) < 2:
                    received += await stream.receive()
                gate.open()
                while b"[DONE]" not in received:
                    received += await stream.receive()
        assert b'"content":"late"' in received


async def test_agents_are_models(tmp_path: Path) -> None:
    agents = {"list": [{"id": "main", "default": True}, {"id": "work"}]}
    async with serving_api(tmp_path / "h", agents=agents) as api:
        listed = (await api(None, path="/v1/models", method="GET")).json()
        assert listed["object"] == "list"
        assert [row["id"] for row in listed["data"]] == [
            *("skerry", "skerry:main", "openclaw:main", "skerry:work", "openclaw:work")
        ]
        row = (await api(None, path="/v1/models/skerry:work", method="GET")).json()
        assert (row["id"], row["object"], row["owned_by"]) == ("skerry:work", "model", "skerry")
        assert (await api(None, path="/v1/models/gpt-9", method="GET")).status_code == 404
        for name, agent in (
            ("skerry", "main"),
            ("skerry:work", "work"),
            ("openclaw:work", "work"),
            ("openclaw/work", "work"),
            ("agent:work", "work"),
            ("openclaw/default", "main"),
        ):
            response = await api({**chat_body("hi"), "model": name})
            assert response.json()["model"] == name
            assert response.headers["x-skerry-session-key"].startswith(f"agent:{agent}:openai:")
        by_header = await api(chat_body("hi"), {**AUTH, "x-openclaw-agent-id": "work"})
        assert by_header.headers["x-skerry-session-key"].startswith("agent:work:")
        for unknown in ("gpt-9", "skerry:none", "skerry:wo rk"):
            response = await api({**chat_body("hi"), "model": unknown})
            assert response.status_code == 404
            assert response.json()["error"]["code"] == "model_not_found"
            assert "skerry:work" in response.json()["error"]["message"]


async def test_a_user_and_a_header_name_a_conversation_that_goes_on(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with serving_api(tmp_path / "h", model) as api:
        for headers, more, key in (
            (AUTH, {"user": "ada"}, "agent:main:openai-user:ada"),
            ({**AUTH, "x-openclaw-session-key": "notes"}, {}, "agent:main:notes"),
            ({**AUTH, "x-skerry-session-key": "agent:main:deep"}, {}, "agent:main:deep"),
        ):
            for text in ("first", "second"):
                response = await api(chat_body(text, **more), headers)
                assert response.headers["x-skerry-session-key"] == key
            assert [entry.text for entry in await api.transcript(key)] == [
                *("first", "echo: first", "second", "echo: second")
            ]
            assert len(model.requests[-1].messages) == 3
        wrong = {**AUTH, "x-skerry-session-key": "agent:none:x"}
        assert (await api(chat_body("hi"), wrong)).status_code == 404
        other = {**chat_body("hi"), "model": "skerry:main"}
        assert (await api(other, wrong)).status_code == 400


async def test_users_never_share_a_conversation_by_their_spelling(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "h") as api:
        users = ("ada", "Ada", "a:da", "direct", "group", "ada ", "ädä", "x" * 300)
        keys = [
            (await api(chat_body("hi", user=user))).headers["x-skerry-session-key"]
            for user in users
        ]
        assert len(set(keys)) == len(users)
        assert all(key.startswith("agent:main:openai-user:") for key in keys)
        assert all(len(key.split(":")) == 4 for key in keys)


async def test_system_messages_are_instructions_of_the_run(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with serving_api(tmp_path / "h", model) as api:
        messages = [
            {"role": "system", "content": "Answer in French."},
            {"role": "user", "content": "hello"},
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        ]
        response = await api({"model": "skerry", "messages": messages})
        assert response.json()["choices"][0]["message"]["content"] == "echo: hello"
        assert "Answer in French.\n\nBe brief." in model.requests[-1].request.system
        long = {"role": "system", "content": "x" * (turns.MAX_SYSTEM + 1)}
        refused = await api({"model": "skerry", "messages": [long, messages[1]]})
        assert refused.status_code == 400


async def test_earlier_messages_are_the_conversation_and_those_of_the_assistant_are_claims(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(echo)
    async with serving_api(tmp_path / "h", model) as api:
        response = await api(chat_body("My name is Ada.", "Hello Ada.", "Who am I?"))
        assert response.json()["choices"][0]["message"]["content"] == "echo: Who am I?"
        texts = [message.text for message in model.requests[-1].messages]
        assert texts == ["My name is Ada.", "Hello Ada.", "Who am I?"]
        entries = await api.transcript(response.headers["x-skerry-session-key"])
        assert [entry.origin for entry in entries] == [
            *(Origin.OWNER, Origin.PLUGIN, Origin.OWNER, None)
        ]


async def test_a_named_conversation_takes_earlier_messages_only_while_it_is_new(
    tmp_path: Path,
) -> None:
    async with serving_api(tmp_path / "h") as api:
        await api(chat_body("one", "two", "three", user="ada"))
        await api(chat_body("one", "two", "three", "echo: three", "four", user="ada"))
        texts = [entry.text for entry in await api.transcript("agent:main:openai-user:ada")]
        assert texts == ["one", "two", "three", "echo: three", "four", "echo: four"]


def image(url: str) -> list[Any]:
    """Returns a message with an image."""
    return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "at least 1 item"),
        ([{"role": "assistant", "content": "x"}], "role user"),
        ([{"role": "user", "content": " "}], "role user"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "role user"),
        ([{"role": "tool", "content": "a", "tool_call_id": "1"}], "role tool"),
        ([{"role": "king", "content": "a"}], "messages.0.role"),
        ([{"role": "user", "content": [{"type": "input_audio"}]}], "input_audio"),
        (image("https://x"), "fetches no addresses"),
        (image("data:;base64,eA=="), "PNG"),
    ],
)  # fmt: skip
async def test_messages_that_cannot_be_answered_are_refused(
    tmp_path: Path, messages: list[Any], problem: str
) -> None:
    async with serving_api(tmp_path / "h") as api:
        response = await api({"model": "skerry", "messages": messages})
        assert response.status_code == 400
        assert problem in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("more", "is_refused"),
    [
        ({"tools": [{"type": "function", "function": {"name": "x"}}]}, True),
        ({"tools": [], "tool_choice": "auto"}, False),
        ({"response_format": {"type": "json_object"}}, True),
        ({"response_format": {"type": "text"}}, False),
        ({"n": 2}, True),
        ({"n": 1, "temperature": 0.2, "max_tokens": 5, "unheard_of": {"a": 1}}, False),
        ({"stop": ["\n"]}, True),
    ],
)
async def test_parameters_that_would_change_the_answer_are_refused_and_not_ignored(
    tmp_path: Path, more: dict[str, Any], *, is_refused: bool
) -> None:
    async with serving_api(tmp_path / "h") as api:
        response = await api(chat_body("hi", **more))
        assert response.status_code == (400 if is_refused else 200)
        if is_refused:
            assert response.json()["error"]["param"] == next(iter(more))
            assert response.json()["error"]["code"] == "unsupported_parameter"


async def test_effort_and_images_reach_the_model(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with serving_api(tmp_path / "h", model) as api:
        parts = [
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": PNG}},
        ]
        body = {"model": "skerry", "messages": [{"role": "user", "content": parts}]}
        response = await api(body)
        assert response.status_code == 400
        assert "reads no images" in response.json()["error"]["message"]
        models: Any = api.application.context.models
        models.info = replace(models.info, input=frozenset({"text", "image"}))
        response = await api(body)
        assert response.status_code == 200
        assert [type(block) for block in model.requests[-1].messages[-1].content] == [
            *(TextBlock, ImageBlock)
        ]
        wrong = await api(chat_body("hi", reasoning_effort="huge"))
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "reasoning_effort")
        assert (await api(chat_body("hi", reasoning_effort="none"))).status_code == 200


async def test_text_is_no_command(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "h") as api:
        for text in ("/new", "/status", "/model x", "/stop"):
            response = await api(chat_body(text, user="ada"))
            assert response.json()["choices"][0]["message"]["content"] == f"echo: {text}"


def test_images_of_all_messages_are_limited_together() -> None:
    turn = turns.SpokenTurn(is_assistant=False, text="x", images=(PNG,) * 21)
    with pytest.raises(Exception, match="21 images"):
        turns.prompt([turn])
    fine = turns.prompt([turns.SpokenTurn(is_assistant=False, text="x", images=(PNG,))])
    assert [type(block) for block in fine.images] == [ImageBlock]


def test_earlier_messages_beyond_the_window_are_left_out_with_a_note() -> None:
    def turn(text: str, *, by: bool) -> turns.SpokenTurn:
        return turns.SpokenTurn(is_assistant=by, text=text)

    history = [
        turn("old" * 100, by=False),
        turn("old answer", by=True),
        turn("new", by=False),
        turn("new answer", by=True),
    ]
    assert [kept.text for kept in turns.fitting(history, 1_000)] == [kept.text for kept in history]
    assert [kept.text for kept in turns.fitting(history, 60)] == [
        turns.CUT,
        *("old answer", "new", "new answer"),
    ]
    assert [kept.text for kept in turns.fitting(history, 15)] == [
        f"{turns.CUT}\n\nnew",
        "new answer",
    ]
    assert turns.fitting(history, 1) == []
    begun_by = turns.fitting([turn("Hi!", by=True)], 1_000)
    assert [kept.text for kept in begun_by] == [turns.OPENED, "Hi!"]


def test_levels_have_the_names_of_openai() -> None:
    assert parsed(chat_body("x", reasoning_effort="high")).reasoning_effort is ThinkingLevel.HIGH
