"""Asks an agent with the official SDK of OpenAI, and prints the answers as JSON.

Runs in an environment of its own, `.venv-sdk`: `python chat.py BASE_URL TOKEN`.
"""

import json
import sys
from importlib import import_module
from typing import Any


def status(call: Any) -> list[Any]:
    """Returns the class and the code of the error that a call raises."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - the class is the finding
        return [type(error).__name__, getattr(error, "code", None)]
    return ["none", None]


def main(base_url: str, token: str) -> dict[str, Any]:
    openai = import_module("openai")
    client = openai.OpenAI(base_url=f"{base_url}/v1", api_key=token, max_retries=0)
    chat, hello = client.chat.completions, [{"role": "user", "content": "hello"}]
    whole = chat.create(model="skerry", messages=hello, temperature=0.5)
    with chat.stream(
        model="skerry:main", messages=hello, stream_options={"include_usage": True}
    ) as stream:
        streamed = stream.get_final_completion()
    key = {"Idempotency-Key": "one"}
    first, again = (
        chat.create(model="skerry", messages=hello, extra_headers=key) for _ in range(2)
    )
    stranger = openai.OpenAI(base_url=f"{base_url}/v1", api_key="wrong", max_retries=0)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    answered = client.responses.create(model="skerry", input="hello")
    continued = client.responses.create(
        model="skerry", input="again", previous_response_id=answered.id
    )
    with client.responses.stream(model="skerry", input="hello") as events:
        kinds = [event.type for event in events]
        final = events.get_final_response()
    return {
        "responses": [answered.output_text, continued.output_text, final.output_text],
        "response": [final.status, final.usage.output_tokens, kinds[0], kinds[-1]],
        "models": [model.id for model in client.models.list()],
        "model": client.models.retrieve("skerry:main").id,
        "whole": [whole.choices[0].message.content, whole.choices[0].finish_reason],
        "streamed": [streamed.choices[0].message.content, streamed.choices[0].finish_reason],
        "usage": [streamed.usage.prompt_tokens > 0, streamed.usage.completion_tokens],
        "repeated": first.id == again.id,
        "errors": [
            status(stranger.models.list),
            status(lambda: chat.create(model="gpt-9", messages=hello)),
            status(lambda: chat.create(model="skerry", messages=hello, tools=[tool])),
            status(lambda: chat.create(model="skerry", messages=[])),
            status(
                lambda: chat.create(model="skerry", messages=[*hello, *hello], extra_headers=key)
            ),
            status(lambda: client.embeddings.create(model="skerry", input="x")),
        ],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], sys.argv[2])))
