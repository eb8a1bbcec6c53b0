"""The slot of the memory: claims of plugins, and a gateway without a memory."""

from pathlib import Path

import pytest

from skerry.hooks.hooks import Hooks
from skerry.infra.features import Feature
from skerry.model.ids import AgentId
from skerry.sdk.features import FeatureApi, Features, registered
from tests.support.whole import whole_gateway


def test_the_memory_claims_its_slot_and_nobody_claims_it_twice() -> None:
    assert list(registered().slots) == ["memory", "embedded_model", "sandbox", "transcription"]
    api = FeatureApi(Feature("pond"), Features(slots={"memory": lambda: None}))
    with pytest.raises(RuntimeError, match="memory is already claimed"):
        api.open_slot("memory", "parts:open_memory")


async def test_a_gateway_in_which_nothing_claims_the_slot_answers_without_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with whole_gateway(tmp_path / "with", Hooks()) as (application, _):
        assert "memory_search" in application.dispatch.runtime.tools
        assert application.context.commands.find("remember") is not None
        assert application.context.memory is not None
    monkeypatch.setattr("skerry.sdk.slots.registered", Features)
    async with whole_gateway(tmp_path / "without", Hooks()) as (application, _):
        assert not [name for name in application.dispatch.runtime.tools if "memory" in name]
        assert application.context.commands.find("remember") is None
        assert application.context.commands.find("status") is not None
        assert (application.context.memory, application.context.forgets) == (None, None)
        assert application.settings.config.workspace(AgentId("main")).is_dir()
