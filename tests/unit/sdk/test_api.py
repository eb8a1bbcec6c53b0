"""What a plugin is given."""

import pytest

from skerry.hooks.events import GatewayStart
from skerry.hooks.hooks import Hooks
from skerry.sdk.api import PluginApi, UnknownHookError


async def test_a_handler_is_registered_under_the_plugins_name() -> None:
    seen: list[GatewayStart] = []
    async with Hooks() as hooks:
        PluginApi("mine", hooks).on("gateway_start", seen.append, priority=3)
        await hooks.gateway_start.run(GatewayStart(port=1))
        (report,) = hooks.report()
    assert seen == [GatewayStart(port=1)]
    assert (report.plugin, report.hook, report.priority) == ("mine", "gateway_start", 3)


def test_a_misspelt_hook_is_refused_with_the_name_that_was_meant() -> None:
    with pytest.raises(UnknownHookError, match=r"Did you mean 'before_tool_call'\?"):
        PluginApi("mine", Hooks()).on("before_toolcall", print)
