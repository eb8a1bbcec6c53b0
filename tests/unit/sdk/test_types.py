"""A type checker finds a handler that does not fit its hook."""

from textwrap import dedent

import pytest
from mypy import api as mypy

from scripts.requirements import ROOT

HEAD = """
    from skerry.sdk import hooks as h
    from skerry.sdk.api import PluginApi

    async def seen(event: h.MessageReceived) -> None: ...
    def block(draft: h.BeforeToolCall) -> h.BeforeToolCallChange | None: ...
    async def block_later(draft: h.BeforeToolCall) -> h.BeforeToolCallChange | None: ...
    def rewrite(draft: h.BeforeMessageWrite) -> h.BeforeMessageWriteChange | None: ...
    async def rewrite_later(draft: h.BeforeMessageWrite) -> h.BeforeMessageWriteChange | None: ...
    def is_shell(draft: h.BeforeToolCall) -> bool: ...

    def register(api: PluginApi) -> None:
"""
GOOD = (
    "api.hooks.message_received(seen)",
    "api.hooks.before_tool_call(block, priority=5, when=is_shell)",
    "api.hooks.before_tool_call(block_later)",
    "api.hooks.before_message_write(rewrite)",
)
BAD = {
    "the handler of another hook": "api.hooks.message_sent(seen)",
    "a change of another hook": "api.hooks.llm_input(block)",
    "a misspelt hook": "api.hooks.before_toolcall(block)",
    "an async handler where only a plain one is called": (
        "api.hooks.before_message_write(rewrite_later)"
    ),
    "a condition on another payload": "api.hooks.message_received(seen, when=is_shell)",
    "a handler of one hook under a name that the checker does not look at": (
        'api.on("before_tool_call", block)'
    ),
    "a priority that is no number": 'api.hooks.message_received(seen, priority="high")',
}


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Returns the lines for which mypy reports an error, in a plugin with all of them."""
    lines = [*GOOD, *BAD.values()]
    head = dedent(HEAD).lstrip("\n")
    plugin = tmp_path_factory.mktemp("plugin") / "typed.py"
    plugin.write_text(head + "".join(f"    {line}\n" for line in lines), "utf-8")
    config = ["--config-file", str(ROOT / "pyproject.toml")]
    said, crash, _ = mypy.run([*config, "--cache-dir", str(ROOT / ".mypy_cache"), str(plugin)])
    assert not crash
    first = head.count("\n") + 1
    numbers = {int(line.split(":")[1]) - first for line in said.splitlines() if ": error:" in line}
    return [lines[number] for number in sorted(numbers) if number >= 0]


def test_handlers_that_fit_are_accepted(errors: list[str]) -> None:
    assert not set(GOOD) & set(errors)


@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_refused(errors: list[str], what: str) -> None:
    assert BAD[what] in errors
