"""The parts of the `PluginApi`."""

import pytest
from pydantic import BaseModel

from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import PromptChange
from skerry.model.errors import PluginError
from skerry.sdk.api import HOOKS, PLAIN_HOOKS, PROMPT_HOOKS, PluginApi, sealed


def test_a_handler_is_kept_under_the_plugins_name() -> None:
    api = PluginApi("mine")
    api.on("gateway_start", print, priority=3)
    ((hook, handler),) = sealed(api).handlers
    assert (hook, handler.plugin, handler.priority) == ("gateway_start", "mine", 3)


def test_a_misspelt_hook_is_refused_with_the_name_that_was_meant() -> None:
    with pytest.raises(PluginError, match=r"Did you mean 'before_tool_call'\?"):
        PluginApi("mine").on("before_toolcall", print)


@pytest.mark.parametrize("hook", sorted(PROMPT_HOOKS))
def test_who_may_not_change_the_prompt_cannot_register_there(hook: str) -> None:
    api = PluginApi("mine", allow_prompt=False)
    with pytest.raises(PluginError) as refused:
        api.on(hook, print)
    assert refused.value.remedy == (
        "Allow it with plugins.entries.mine.hooks.allowPromptInjection."
    )


@pytest.mark.parametrize("hook", HOOKS)
def test_a_plugin_without_access_to_conversations_may_use_only_plain_hooks(hook: str) -> None:
    api = PluginApi("mine", allow_conversation=False)
    if hook in PLAIN_HOOKS:
        api.on(hook, print)
    else:
        with pytest.raises(PluginError, match="may read conversations"):
            api.on(hook, print)


def test_the_hooks_of_the_api_are_those_of_the_gateway() -> None:
    assert tuple(Hooks().points) == HOOKS


def test_the_names_of_the_switches_are_hooks() -> None:
    assert set(HOOKS) >= PROMPT_HOOKS | PLAIN_HOOKS


def test_after_register_nothing_is_taken() -> None:
    api = PluginApi("mine")
    sealed(api)
    with pytest.raises(PluginError, match="after `register`"):
        api.on("gateway_start", print)


def test_a_method_has_the_plugins_name_before_its_own() -> None:
    async def run(_params: BaseModel, _call: object) -> None:
        return None

    api = PluginApi("mine")
    api.register_gateway_method("ping", BaseModel, run)
    (method,) = sealed(api).methods
    assert (method.name, method.scope) == ("mine.ping", "operator.admin")


class Pond(BaseModel, extra="forbid"):
    frogs: int = 3


def test_settings_are_checked_against_the_model_of_the_plugin() -> None:
    assert PluginApi("pond", {"frogs": 5}).settings(Pond).frogs == 5
    with pytest.raises(PluginError, match=r"plugins\.entries\.pond\.config\.fogs: ") as refused:
        PluginApi("pond", {"fogs": 5}).settings(Pond)
    assert refused.value.remedy == "Correct plugins.entries.pond.config."


@pytest.mark.parametrize(("text", "section"), [("Three frogs.\n", True), ("  ", False)])
async def test_a_prompt_section_with_a_text_is_after_the_prompt(
    *, text: str, section: bool
) -> None:
    async def render(_: object) -> str:
        return text

    api = PluginApi("pond")
    api.register_prompt_section("The pond", render)
    ((hook, handler),) = sealed(api).handlers
    change = await handler.call(None)  # type: ignore[misc]  # it is an async function
    assert hook == "before_prompt_build"
    assert change == (
        PromptChange(append_system_context="## The pond\n\nThree frogs.") if section else None
    )


def test_who_may_not_change_the_prompt_can_register_no_section() -> None:
    async def render(_: object) -> str:
        return "x"

    with pytest.raises(PluginError, match="before_prompt_build"):
        PluginApi("pond", allow_prompt=False).register_prompt_section("x", render)
