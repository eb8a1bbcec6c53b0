"""The order of any registered handlers, and the result of their changes."""

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.hooks.events import RunContext
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import (
    BeforeToolCall,
    BeforeToolCallChange,
    ModelResolve,
    ModelResolveChange,
    PromptChange,
    PromptDraft,
)
from skerry.hooks.runner import Handler
from skerry.model.ids import AgentId, RunId, SessionId

CONTEXT = RunContext(
    run_id=RunId("r"), agent_id=AgentId("main"), session_key="k", session_id=SessionId("s")
)
DRAFT = PromptDraft(context=CONTEXT, prompt="hi", messages=(), provider="p", model="m")
CALL = BeforeToolCall(context=CONTEXT, tool_name="t", tool_call_id="c", params={"a": 0})

priorities = st.integers(-3, 3)
names = st.none() | st.text(max_size=3)


@given(st.lists(st.tuples(priorities, names, names), max_size=6))
@settings(deadline=None)
def test_contexts_are_in_order_of_priority_and_the_last_system_prompt_counts(
    plan: list[tuple[int, str | None, str | None]],
) -> None:
    async def play() -> PromptDraft:
        async with Hooks() as hooks:
            for priority, context, system in plan:
                change = PromptChange(prepend_context=context, system_prompt=system)

                async def call(_: PromptDraft, change: PromptChange = change) -> PromptChange:
                    return change

                hooks.before_prompt_build.add(Handler("test", call, priority))
            return await hooks.before_prompt_build.run(DRAFT)

    made = anyio.run(play)
    ordered = sorted(plan, key=lambda one: -one[0])  # stable, like the points
    assert made.prepend_context == "\n\n".join(context for _, context, _ in ordered if context)
    systems = [system for _, _, system in ordered if system is not None]
    assert made.system_prompt == (systems[-1] if systems else None)


@given(st.lists(st.tuples(priorities, names, names), max_size=6))
@settings(deadline=None)
def test_the_first_that_names_a_model_counts(
    plan: list[tuple[int, str | None, str | None]],
) -> None:
    async def play() -> ModelResolve:
        async with Hooks() as hooks:
            for priority, provider, model in plan:
                change = ModelResolveChange(provider_override=provider, model_override=model)

                async def call(
                    _: ModelResolve, change: ModelResolveChange = change
                ) -> ModelResolveChange:
                    return change

                hooks.before_model_resolve.add(Handler("test", call, priority))
            payload = ModelResolve(context=CONTEXT, prompt="hi")
            return await hooks.before_model_resolve.run(payload)

    made = anyio.run(play)
    ordered = sorted(plan, key=lambda one: -one[0])
    providers = [provider for _, provider, _ in ordered if provider is not None]
    models = [model for _, _, model in ordered if model is not None]
    assert made.provider_override == (providers[0] if providers else None)
    assert made.model_override == (models[0] if models else None)


@given(
    st.lists(
        st.tuples(priorities, st.sampled_from(["change", "block", "fail"]), st.integers(0, 9)),
        max_size=6,
    )
)
@settings(deadline=None)
def test_a_call_runs_with_all_changes_or_not_at_all(plan: list[tuple[int, str, int]]) -> None:
    async def play() -> BeforeToolCall:
        async with Hooks() as hooks:
            for priority, kind, number in plan:

                async def call(
                    _: BeforeToolCall, kind: str = kind, number: int = number
                ) -> BeforeToolCallChange:
                    if kind == "fail":
                        raise ValueError("broken")
                    return BeforeToolCallChange(params={"a": number}, block=kind == "block")

                hooks.before_tool_call.add(Handler("test", call, priority))
            return await hooks.before_tool_call.run(CALL)

    made = anyio.run(play)
    ordered = sorted(plan, key=lambda one: -one[0])
    assert made.closed == any(kind != "change" for _, kind, _ in plan)
    if not made.closed:
        assert made.params == {"a": ordered[-1][2] if ordered else 0}
