"""The report on the prompt of a conversation."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from skerry.client.client import GatewayClient
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import PromptDraft
from skerry.hooks.runner import Handler
from skerry.model.ids import SessionKey
from skerry.testing.model import ScriptedModels
from tests.support.whole import whole_gateway

GROUP = "agent:main:memory:group:1"


async def test_it_is_what_the_next_message_is_sent_with(tmp_path: Path) -> None:
    async with whole_gateway(tmp_path / "state", Hooks()) as (application, address):
        model, _ = await application.context.models.choose(None)
        async with GatewayClient(address, scopes=("operator.read", "operator.write")) as client:
            report = await client.request("prompt.show")
            await client.request(
                "chat.send", {"sessionKey": "main", "message": "hi", "idempotencyKey": "1"}
            )
            await application.dispatch.wait("1", 60)  # type: ignore[arg-type]  # a run's id is a text
            second = await client.request("prompt.show")
    assert model.requests[0].request.system == report["systemPrompt"] == second["systemPrompt"]  # type: ignore[attr-defined]
    assert report["sessionId"] is None
    assert second["entries"] == 2
    assert [part["name"] for part in report["parts"]] == [
        "base",
        "tools",
        "memory",
        "files",
        "date",
        "runtime",
        "tool schemas",
    ]
    assert sum(part["share"] for part in report["parts"]) == pytest.approx(1, abs=0.01)
    assert "BOOTSTRAP.md" in [file["name"] for file in report["files"]]


async def test_it_says_that_a_small_model_is_shown_no_files(tmp_path: Path) -> None:
    async with whole_gateway(tmp_path / "state", Hooks()) as (application, _):
        models, show = application.context.models, application.context.show_prompt
        assert isinstance(models, ScriptedModels)
        models.info = replace(models.info, supports_tools=False, prompt_limit=600)
        assert show is not None
        report = await show(SessionKey.main())
    assert [part.name for part in report.parts] == ["base"]
    assert report.notes == [
        "The context of this model is small: its prompt has no files of the workspace."
    ]


async def test_looking_begins_nothing(tmp_path: Path) -> None:
    async with whole_gateway(tmp_path / "state", Hooks()) as (application, _):
        assert application.context.show_prompt is not None
        first = await application.context.show_prompt(SessionKey.parse("agent:main:one"))
        second = await application.context.show_prompt(SessionKey.parse("agent:main:two"))
    assert "BOOTSTRAP.md" in [file.name for file in first.files]
    assert "BOOTSTRAP.md" in [file.name for file in second.files]


async def test_it_says_what_it_leaves_out(tmp_path: Path) -> None:
    hooks = Hooks()

    def build(_: PromptDraft) -> None:
        raise AssertionError

    hooks.before_prompt_build.add(Handler("test", build))
    async with (
        whole_gateway(tmp_path / "state", hooks) as (_, address),
        GatewayClient(address, scopes=("operator.read",)) as client,
    ):
        report = await client.request("prompt.show", {"sessionKey": GROUP})
        assert "MEMORY.md" not in report["systemPrompt"].split("## Workspace files")[0]
        assert report["notes"] == [
            "Plugins may add to the prompt of a message, by before_prompt_build or llm_input."
        ]


async def test_it_shows_the_sections_of_plugins(tmp_path: Path) -> None:
    plugin = tmp_path / "pond.py"
    plugin.write_text(
        "async def render(draft): return f'Frogs of {draft.context.agent_id}.'\n"
        "async def none(draft): return ''\n"
        "def register(api):\n"
        "    api.register_prompt_section('The pond', render)\n"
        "    api.register_prompt_section('Nothing', none)\n",
        "utf-8",
    )
    plugin.chmod(0o600)
    config = {"plugins": {"load": {"paths": [str(plugin)]}}}
    async with (
        whole_gateway(tmp_path / "state", Hooks(), config=config) as (_, address),
        GatewayClient(address, scopes=("operator.read",)) as client,
    ):
        report = await client.request("prompt.show", {"sessionKey": "main"})
    section = "## The pond\n\nFrogs of main."
    assert report["systemPrompt"].endswith(section)
    sizes = [part["chars"] for part in report["parts"] if part["name"] == "plugin pond"]
    assert sizes == [len(section)]
    assert report["notes"] == []
