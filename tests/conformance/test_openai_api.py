"""The official SDK of OpenAI asks an agent of the gateway."""

import json
from pathlib import Path

import anyio
import pytest

from tests.support.api_client import TOKEN, serving_api
from tests.support.mocks import program

pytestmark = pytest.mark.full("the official SDKs")

SCRIPTS = Path(__file__).parent / "sdk"


async def test_the_official_sdk_asks_an_agent(tmp_path: Path) -> None:
    python = program("SKERRY_SDK_PYTHON", ".venv-sdk/bin/python")
    with anyio.fail_after(90):
        async with serving_api(tmp_path / "h") as api:
            command = [python, str(SCRIPTS / "chat.py"), api.url, TOKEN]
            completed = await anyio.run_process(command, stderr=None)
    report = json.loads(completed.stdout)
    assert report == {
        "responses": ["echo: hello", "echo: again", "echo: hello"],
        "response": ["completed", 2, "response.created", "response.completed"],
        "models": ["skerry", "skerry:main", "openclaw:main"],
        "model": "skerry:main",
        "whole": ["echo: hello", "stop"],
        "streamed": ["echo: hello", "stop"],
        "usage": [True, 2],
        "repeated": True,
        "errors": [
            ["AuthenticationError", "invalid_api_key"],
            ["NotFoundError", "model_not_found"],
            ["BadRequestError", "unsupported_parameter"],
            ["BadRequestError", "invalid_value"],
            ["UnprocessableEntityError", "request.key_reused"],
            ["NotFoundError", "unknown_url"],
        ],
    }
