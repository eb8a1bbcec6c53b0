"""Which model answers, and how much it thinks, as a person says it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from skerry.commands.table import CommandTable
from skerry.features.models.commands import model_commands
from skerry.model.session import SessionSettings
from skerry.store import sessions
from skerry.testing.model import MODEL, ScriptedModel, echo
from tests.support.core import MAIN, Core, open_core


@asynccontextmanager
async def opened(home: Path) -> AsyncGenerator[Core]:
    table = CommandTable()
    async with open_core(home, ScriptedModel(echo), commands=table) as core:
        config = core.dispatch.runtime.config
        for command in model_commands(core.models, core.store, config):
            table.add(command)
        yield core


async def settings(core: Core) -> SessionSettings:
    session = await core.store.read(lambda reader: sessions.find(reader, str(MAIN)))
    assert session is not None
    return session.settings


async def answer_to(core: Core, text: str) -> str:
    (answer,) = (await core.ask(text)).payloads
    return answer


@pytest.mark.parametrize(
    "text", ["/model 1", f"/model {MODEL.ref}", f"/model {MODEL.id}", f"/model {MODEL.ref.upper()}"]
)
async def test_a_model_is_chosen_by_its_number_its_id_or_its_name(
    tmp_path: Path, text: str
) -> None:
    async with opened(tmp_path) as core:
        assert (
            await answer_to(core, text)
            == f"This conversation uses `{MODEL.ref}` from the next message on."
        )
        assert (await settings(core)).model == MODEL.ref
        assert (await answer_to(core, "/model")).startswith(f"This conversation uses `{MODEL.ref}`")
        await core.ask("/model default")
        assert (await settings(core)).model is None
        assert "/model list" in await answer_to(core, "/model status")


async def test_a_chosen_model_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    async with opened(tmp_path) as core:
        await core.ask(f"/model {MODEL.ref}")
        assert "cannot be used" not in await answer_to(core, "/model")
        core.models.unknown_ref = MODEL.ref
        assert f"cannot be used now, so another model answers: There is no model {MODEL.ref}." in (
            await answer_to(core, "/model status")
        )


async def test_a_profile_stays_with_the_model(tmp_path: Path) -> None:
    async with opened(tmp_path) as core:
        await core.ask(f"/model {MODEL.id}@work")
        assert (await settings(core)).model == f"{MODEL.ref}@work"


@pytest.mark.parametrize("text", ["/model 2", "/model 0", "/model nobody/has-it", "/model a b"])
async def test_another_model_changes_nothing(tmp_path: Path, text: str) -> None:
    async with opened(tmp_path) as core:
        assert (await answer_to(core, text)).startswith("⚠️")
        assert (await settings(core)).model is None


async def test_models_are_listed_by_page_and_provider(tmp_path: Path) -> None:
    async with opened(tmp_path) as core:
        line = (await answer_to(core, "/models")).splitlines()[0]
        assert line.startswith(f"1. `{MODEL.ref}`")
        assert await answer_to(core, f"/models {MODEL.provider} 1") == await answer_to(
            core, "/model list"
        )
        assert f"Providers: `{MODEL.provider}`" in await answer_to(core, "/models nobody")
        assert await answer_to(core, "/models 2") == "⚠️ The list has 1 pages."


async def test_more_thinking_than_the_model_can_is_said(tmp_path: Path) -> None:
    async with opened(tmp_path) as core:
        answer = await answer_to(core, "/think max")
        assert answer == (
            "/think is xhigh from the next message on."
            f" `{MODEL.ref}` has no level xhigh; it uses off."
        )
        assert (await settings(core)).thinking_level == "xhigh"
        assert (await answer_to(core, "/t")).endswith(f"`{MODEL.ref}` takes off.")
        assert (await answer_to(core, "/think hihg")).startswith("⚠️ 'hihg' is not a thinking level")
        await core.ask("/think default")
        assert (await settings(core)).thinking_level is None
