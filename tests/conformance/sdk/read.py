"""Reads one stream with the official SDK of its API, and prints the result as JSON.

Runs in an environment of its own, `.venv-sdk`: `python read.py API BASE_URL`.
"""

import json
import sys
from importlib import import_module
from typing import Any


def completions(base_url: str) -> dict[str, Any]:
    openai = import_module("openai")
    client = openai.OpenAI(base_url=base_url + "/v1", api_key="k", max_retries=0)
    try:
        with client.chat.completions.stream(
            model="m", messages=[], stream_options={"include_usage": True}
        ) as stream:
            said = stream.get_final_completion()
    except openai.LengthFinishReasonError as error:  # its way to say so
        said = error.completion
    choice, usage = said.choices[0], said.usage
    calls = choice.message.tool_calls or []
    return {
        "text": choice.message.content or "",
        "thinking": "",
        "calls": [[c.function.name, json.loads(c.function.arguments)] for c in calls],
        "ids": [c.id for c in calls],
        "usage": [usage.prompt_tokens, usage.completion_tokens],
        "cached": usage.prompt_tokens_details.cached_tokens,
        "stop": choice.finish_reason,
    }


def responses(base_url: str) -> dict[str, Any]:
    client = import_module("openai").OpenAI(base_url=base_url + "/v1", api_key="k", max_retries=0)
    said: Any = None
    for event in client.responses.create(model="m", input=[], stream=True):
        if event.type in {"response.completed", "response.incomplete"}:
            said = event.response
    parts = [one for item in said.output if item.type == "message" for one in item.content]
    thoughts = [
        one.text for item in said.output if item.type == "reasoning" for one in item.summary
    ]
    calls = [item for item in said.output if item.type == "function_call"]
    return {
        "text": "".join(getattr(part, "text", None) or part.refusal for part in parts),
        "thinking": "\n\n".join(thoughts),
        "calls": [[call.name, json.loads(call.arguments)] for call in calls],
        "ids": [call.call_id for call in calls],
        "usage": [said.usage.input_tokens, said.usage.output_tokens],
        "cached": said.usage.input_tokens_details.cached_tokens,
        "stop": said.incomplete_details.reason if said.incomplete_details else said.status,
    }


def messages(base_url: str) -> dict[str, Any]:
    client = import_module("anthropic").Anthropic(base_url=base_url, api_key="k", max_retries=0)
    with client.messages.stream(model="m", max_tokens=9, messages=[]) as stream:
        said = stream.get_final_message()
    calls = [block for block in said.content if block.type == "tool_use"]
    usage = said.usage
    cached = usage.cache_read_input_tokens or 0
    written = usage.cache_creation_input_tokens or 0
    return {
        "text": "".join(block.text for block in said.content if block.type == "text"),
        "thinking": "".join(block.thinking for block in said.content if block.type == "thinking"),
        "calls": [[call.name, call.input] for call in calls],
        "ids": [call.id for call in calls],
        "usage": [usage.input_tokens + cached + written, usage.output_tokens],
        "cached": cached,
        "stop": said.stop_reason,
    }


def google(base_url: str) -> dict[str, Any]:
    client = import_module("google.genai").Client(
        api_key="k", http_options={"base_url": base_url, "api_version": "v1beta"}
    )
    text, thinking = "", ""
    calls: list[Any] = []
    stop: Any = None
    usage: Any = None
    for piece in client.models.generate_content_stream(model="m", contents="hi"):
        usage = piece.usage_metadata or usage
        for candidate in piece.candidates or []:
            stop = candidate.finish_reason or stop
            for part in (candidate.content and candidate.content.parts) or []:
                if part.function_call:
                    calls.append(part.function_call)
                elif part.thought:
                    thinking += part.text or ""
                else:
                    text += part.text or ""
    return {
        "text": text,
        "thinking": thinking,
        "calls": [[call.name, call.args] for call in calls],
        "ids": [call.id for call in calls],
        "usage": [
            usage.prompt_token_count,
            (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
        ],
        "cached": usage.cached_content_token_count or 0,
        "stop": stop.value,
    }


APIS = {
    "openai-completions": completions,
    "openai-responses": responses,
    "anthropic-messages": messages,
    "google-generative-ai": google,
}

sys.stdout.write(json.dumps(APIS[sys.argv[1]](sys.argv[2])))
