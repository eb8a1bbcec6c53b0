"""The tool `image` with a model for pictures of its own."""

import io
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast

import anyio
import pytest
from msgspec.structs import replace
from PIL import Image

from skerry.app.build import Application
from skerry.hooks.hooks import Hooks
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.caller import Caller
from skerry.model.errors import ModelRequestError, ToolError
from skerry.model.ids import SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.message import ImageBlock, TextBlock
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult
from skerry.ports.tool import ToolContext
from skerry.testing.model import MODEL, ScriptedModel, ScriptedModels, Step
from tests.support.whole import whole_gateway

CALLER: Final = Caller(SessionKey.main(), PeerKind.DIRECT, Origin.OWNER, is_private=True)


@asynccontextmanager
async def gateway(
    home: Path, model: ScriptedModel, *, sees: bool = True
) -> AsyncIterator[tuple[Application, ScriptedModels]]:
    chosen = {"agents": {"defaults": {"imageModel": "test/eyes"}}, "tools": {"profile": "full"}}
    async with whole_gateway(home, Hooks(), config=chosen, model=model) as (application, _):
        models = cast("ScriptedModels", application.dispatch.runtime.models)
        kinds = frozenset({"text", "image"} if sees else {"text"})
        models.info = replace(MODEL, input=kinds)
        yield application, models


async def ask(application: Application) -> ToolResult:
    folder = application.settings.config.workspace(CALLER.key.agent)
    folder.mkdir(parents=True, exist_ok=True)
    picture = io.BytesIO()
    Image.new("RGB", (4, 4)).save(picture, "PNG")
    (folder / "a.png").write_bytes(picture.getvalue())
    tool = application.dispatch.runtime.tools["image"]
    with anyio.fail_after(60):
        arguments = {"image": "a.png", "prompt": "What is it?"}
        return await tool.run(arguments, ToolContext(RootedFolder(folder), caller=CALLER))


async def test_the_model_for_pictures_gets_them_and_its_answer_is_the_result(
    tmp_path: Path,
) -> None:
    model = ScriptedModel([["A black square."]])
    async with gateway(tmp_path / "home", model) as (application, models):
        result = await ask(application)
    assert (result.text, result.blocks) == ("A black square.", ())
    assert (result.details or {})["images"] == 1
    assert models.chosen[-1] == "test/eyes"
    (message,) = model.requests[-1].messages
    text, picture = message.content
    assert isinstance(text, TextBlock)
    assert text.text.startswith("What is it?")
    assert isinstance(picture, ImageBlock)
    assert model.requests[-1].request.tools == ()


@pytest.mark.parametrize(
    ("steps", "sees", "reason"),
    [
        ([ModelRequestError("no credit")], True, "no credit"),
        (["x"], False, "does not support image input"),
    ],
)
async def test_a_model_that_fails_or_does_not_see_is_named(
    tmp_path: Path, steps: Sequence[Step], reason: str, *, sees: bool
) -> None:
    async with gateway(tmp_path / "home", ScriptedModel([steps]), sees=sees) as (application, _):
        with pytest.raises(ToolError, match=f"imageModel.*{reason}"):
            await ask(application)
