"""The system prompt: stable, small, and what it says."""

from dataclasses import replace
from pathlib import Path

from skerry.agent.prompt import system_prompt
from skerry.model.ids import AgentId
from skerry.ports.model import ModelInfo
from skerry.providers.compat_request import request_body
from skerry.sessions.window import CHARS_PER_TOKEN
from skerry.testing.model import ScriptedModel, echo
from skerry.tools.read import Read
from tests.support.core import open_core

MAIN = AgentId("main")
MODEL = ModelInfo("p", "m", "M")
FIRST_REQUEST_BYTES = 12_000
"""The budget of decisions 5."""


def prompt(name: str = "", model: ModelInfo = MODEL) -> str:
    tools = (Read.spec,) if model.supports_tools else ()
    return system_prompt(name, MAIN, Path("/w"), model, tools)


def test_it_says_who_answers_and_with_what() -> None:
    text = prompt("Pebble")
    assert text.startswith("You are Pebble, ")
    assert "- read: Read lines of a text file." in text
    assert "/w" in text
    assert "agent=main model=p/m" in text


def test_an_agent_without_a_name_is_called_by_what_it_is() -> None:
    assert prompt().startswith("You are a personal assistant ")


def test_a_model_without_tools_gets_a_prompt_for_a_small_head() -> None:
    text = prompt(model=replace(MODEL, supports_tools=False))
    assert "##" not in text
    assert "/w" not in text
    assert len(text) / CHARS_PER_TOKEN < 600 / 2  # its limit, halved because the count is rough


async def test_it_is_the_same_byte_for_byte_from_turn_to_turn(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        await core.ask("one")
        await core.ask("two")
    first, second = (seen.request.system for seen in model.seen)
    assert first == second


async def test_the_first_request_is_small(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        await core.ask("hi")
    assert len(request_body(model.seen[0].request, "max_tokens")) < FIRST_REQUEST_BYTES
