"""Responses over a real socket: answers, events, and conversations by the previous response."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from skerry.features.openai_api import one_off_sessions
from skerry.infra.clock import DAY_MS
from skerry.testing.clock import FakeClock
from skerry.testing.model import ReplyGate, ScriptedModel, echo
from tests.support.api_client import AUTH, CHAT, RESPONSES, ApiClient, chat_body, serving_api


def asked(given: Any, **more: Any) -> dict[str, Any]:
    """Returns a body with this input."""
    return {"model": "skerry", "input": given, **more}


def text_of(response: dict[str, Any]) -> str:
    """Returns the text of a response."""
    ((item,), parts) = response["output"], response["output"][0]["content"]
    assert (item["type"], item["role"]) == ("message", "assistant")
    return "".join(part["text"] for part in parts)


def events(text: str) -> list[dict[str, Any]]:
    """Returns the events of a stream; each has the name and the number that it should have."""
    found: list[dict[str, Any]] = []
    for block in text.strip().split("\n\n"):
        name, _, data = block.partition("\ndata: ")
        value = msgspec.json.decode(data)
        assert name == f"event: {value['type']}"
        assert value["sequence_number"] == len(found)
        found.append(value)
    return found


async def ask(api: ApiClient, body: Any, headers: dict[str, str] = AUTH) -> Any:
    return await api(body, headers, RESPONSES)


async def test_an_agent_answers_a_text_and_a_list_of_items(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with serving_api(tmp_path / "h", model) as api:
        response = await ask(api, asked("hello", instructions="Be brief."))
        assert response.status_code == 200
        value = response.json()
        assert (value["object"], value["status"], value["model"]) == (
            *("response", "completed", "skerry"),
        )
        assert text_of(value) == "echo: hello"
        assert value["usage"]["output_tokens"] == 2
        assert "Be brief." in model.requests[-1].request.system
        items = [
            {"role": "developer", "content": "Speak French."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"type": "reasoning", "id": "r", "summary": []},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "b", "annotations": []}],
            },
            {"role": "user", "content": "c"},
        ]
        value = (await ask(api, asked(items))).json()
        assert text_of(value) == "echo: c"
        assert [message.text for message in model.requests[-1].messages] == ["a", "b", "c"]
        assert "Speak French." in model.requests[-1].request.system


async def test_a_stream_has_the_events_of_a_message(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with serving_api(tmp_path / "h", ScriptedModel([["Hel", gate, "lo"]])) as api:
        results: list[Any] = []

        async def stream() -> None:
            results.append(await ask(api, asked("hi", stream=True)))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stream)
                await gate.reached.wait()
                gate.open()
        found = events(results[0].text)
        kinds = [each["type"] for each in found if each["type"] != "response.output_text.delta"]
        assert kinds == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
        deltas = [each["delta"] for each in found if each["type"].endswith("text.delta")]
        assert "".join(deltas) == "Hello"
        assert text_of(found[-1]["response"]) == "Hello"
        assert found[0]["response"]["id"] == found[-1]["response"]["id"]


async def test_a_previous_response_continues_its_conversation(tmp_path: Path) -> None:
    clock, model = FakeClock(), ScriptedModel(echo)
    async with serving_api(tmp_path / "h", model, clock=clock) as api:
        first = (await ask(api, asked("one"))).json()
        second = await ask(api, asked("two", previous_response_id=first["id"]))
        assert second.json()["previous_response_id"] == first["id"]
        entries = await api.transcript(second.headers["x-skerry-session-key"])
        assert [entry.text for entry in entries] == ["one", "echo: one", "two", "echo: two"]
        for unknown in ("resp_1", "resp_openai-" + "0" * 32):
            response = await ask(api, asked("two", previous_response_id=unknown))
            assert response.status_code == 404
            assert response.json()["error"]["code"] == "previous_response_not_found"
        await api.until_idle()
        clock.advance(2 * DAY_MS)
        assert await one_off_sessions.remove_old(api.application.context) == 1
        gone = await ask(api, asked("two", previous_response_id=first["id"]))
        assert gone.status_code == 404


async def test_a_failure_ends_a_stream_with_its_event(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with serving_api(tmp_path / "h", ScriptedModel([["begun", gate]])) as api:
        async with await anyio.connect_tcp("127.0.0.1", api.port) as stream:
            await api.send_raw(stream, asked("hi", stream=True, user="ada"), path=RESPONSES)
            received = b""
            with anyio.fail_after(60):
                while b"begun" not in received:
                    received += await stream.receive()
                context = api.application.context
                key = context.config().session_key("openai-user:ada", None)
                assert context.dispatcher.abort(key, None, "Ada")
                while not received.endswith(b"0\r\n\r\n"):
                    received += await stream.receive()
        failed = received.decode().partition("event: response.failed\ndata: ")[2]
        response = msgspec.json.decode(failed.partition("\n\n")[0])["response"]
        assert (response["status"], response["error"]["code"]) == ("failed", "run.aborted")
        assert text_of(response) == "begun"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"model": "skerry"}, "input"),
        (asked([]), "input"),
        (asked([{"type": "function_call_output", "call_id": "1", "output": "x"}]), "function_call"),
        (asked([{"role": "user", "content": [{"type": "input_file"}]}]), "input_file"),
        (asked("hi", tools=[{"type": "web_search"}]), "tools"),
        (asked("hi", background=True), "Idempotency-Key"),
        (asked("hi", conversation="conv_1"), "x-skerry-session-key"),
        (asked("hi", text={"format": {"type": "json_object"}}), "text.format"),
        (asked("hi", reasoning={"effort": "huge"}), "reasoning.effort"),
    ],
)
async def test_what_an_agent_cannot_do_is_refused(
    tmp_path: Path, body: dict[str, Any], problem: str
) -> None:
    async with serving_api(tmp_path / "h") as api:
        response = await ask(api, body)
        assert response.status_code == 400
        assert problem in response.json()["error"]["message"]


async def test_parameters_without_effect_are_accepted(tmp_path: Path) -> None:
    more: dict[str, Any] = {
        "text": {"format": {"type": "text"}},
        "reasoning": {"effort": "high", "summary": "auto"},
        "tools": [],
        "tool_choice": "auto",
        "store": False,
        "max_output_tokens": 5,
    }
    async with serving_api(tmp_path / "h") as api:
        assert (await ask(api, asked("hi", **more))).status_code == 200


async def test_each_endpoint_is_enabled_alone_and_a_key_belongs_to_one_of_them(
    tmp_path: Path,
) -> None:
    only = {"endpoints": {"responses": {"enabled": True}}}
    async with serving_api(tmp_path / "r", http=only) as api:
        assert (await api(chat_body("hi"), path=CHAT)).status_code == 404
        assert (await ask(api, asked("hi"))).status_code == 200
        assert (await api(None, path="/v1/models", method="GET")).status_code == 200
    keyed = {**AUTH, "idempotency-key": "k"}
    async with serving_api(tmp_path / "b") as api:
        assert (await ask(api, asked("hi"), keyed)).status_code == 200
        assert (await api(chat_body("hi"), keyed)).status_code == 422
