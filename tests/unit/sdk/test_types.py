"""A type checker finds a handler that does not fit its hook."""

import sys
from pathlib import Path
from textwrap import dedent

import pytest
from mypy import api as mypy

from scripts.requirements import ROOT
from skerry.infra.features import FEATURES, Feature
from skerry.sdk.features import FeatureApi, Features, LazyPart

HEAD = """
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic import BaseModel

    from skerry.sdk import hooks as h
    from skerry.sdk.api import PluginApi
    from skerry.sdk.checks import Check
    from skerry.sdk.cli import CliCall
    from skerry.sdk.commands import CommandCall
    from skerry.sdk.http import HttpRequest, HttpResponse
    from skerry.sdk.memory import Remembered, SlotStatus
    from skerry.sdk.methods import MethodCall
    from skerry.sdk.models import ModelInfo, ModelReply, ModelRequest, ReplyListener
    from skerry.sdk.search import SearchHit, SearchQuery
    from skerry.sdk.tables import Database, Reader
    from skerry.sdk.tools import FunctionTool, ToolContext

    class Params(BaseModel): ...
    class Other(BaseModel): ...
    class Provider:
        api = "x"
        async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply: ...
    class Silent:
        api = "x"
        async def complete(self, request: ModelRequest) -> ModelReply: ...
    class Search:
        async def search(self, query: SearchQuery) -> list[SearchHit]: ...
    class Embedding:
        model = "x"
        local = True
        async def embed(self, texts: Sequence[str], *, is_query: bool) -> list[list[float]]: ...
    class Memory:
        async def search(self, agent: str, query: str, limit: int) -> list[Remembered]: ...
        async def forget(self, agent: str, phrases: Sequence[str]) -> int: ...
        async def status(self, agent: str) -> SlotStatus: ...
    async def tool(params: Params, context: ToolContext) -> str: ...
    async def method(params: Params, call: MethodCall) -> object: ...
    async def command(call: CommandCall) -> str: ...
    async def section(draft: h.PromptDraft) -> str: ...
    async def service() -> None: ...
    async def check() -> list[Check]: ...
    async def route(request: HttpRequest) -> HttpResponse: ...
    async def cli(call: CliCall) -> int: ...
    def count(reader: Reader) -> int: ...
    def plain() -> None: ...

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
    'api.register_tool(FunctionTool("x", "X.", Params, tool))',
    'api.register_gateway_method("x", Params, method)',
    'api.register_command("x", command, description="x")',
    'api.register_prompt_section("x", section)',
    'api.register_service("x", service)',
    'api.register_event("x", "X.")({"n": 1})',
    "api.register_doctor_check(check)",
    "api.register_init(plain)",
    'api.register_http_route("x", route)',
    'api.register_cli_command("x", cli)',
    'api.register_page_panel("X", Path("x"))',
    'api.register_model_provider(Provider(), [ModelInfo("x", "y", "Y")])',
    "_ = api.database([]).read(count)",
    'api.register_provider("search", Search())',
    'api.register_provider("embedding", Embedding())',
    'api.register_provider("model", Provider(), [ModelInfo("x", "y", "Y")])',
    'api.claim_slot("memory", Memory())',
    'api.register_cli("x", cli)',
    "_ = api.state_dir / str(api.clock.now_ms())",
    "_ = api.transcripts.since(1)",
    '_ = api.http.fetch("https://example.com")',
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
    "a tool for other parameters": 'api.register_tool(FunctionTool("x", "X.", Other, tool))',
    "a method for other parameters": 'api.register_gateway_method("x", Other, method)',
    "a command that gets a request": 'api.register_command("x", route, description="x")',
    "a section that is no text": 'api.register_prompt_section("x", check)',
    "a service that is a plain function": 'api.register_service("x", plain)',
    "an event without an object": 'api.register_event("x", "X.")(1)',
    "a check that returns nothing": "api.register_doctor_check(service)",
    "a route that returns a text": 'api.register_http_route("x", command)',
    "a command without an exit code": 'api.register_cli_command("x", command)',
    "a panel that is a module": 'api.register_page_panel("X", "panel.js")',
    "an adapter of something else": "api.register_channel(Provider())",
    "a provider that nobody hears": (
        'api.register_model_provider(Silent(), [ModelInfo("x", "y", "Y")])'
    ),
    "a search in the place of a model": 'api.register_provider("embedding", Search())',
    "a model without models": 'api.register_provider("model", Provider())',
    "a kind of provider that there is not": 'api.register_provider("weather", Search())',
    "a slot's holder that forgets nothing": 'api.claim_slot("memory", Search())',
    "a folder in the place of a time": "_ = api.state_dir + 1",
    "a step that is no text": "api.database([1])",
    "a priority that is no number": 'api.hooks.message_received(seen, priority="high")',
}


def checked(arguments: list[str]) -> tuple[str, str, int]:
    """Runs mypy in this process, which raises the limit of recursion: other tests need theirs."""
    limit = sys.getrecursionlimit()
    try:
        return mypy.run(arguments)
    finally:
        sys.setrecursionlimit(limit)


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Returns the lines for which mypy reports an error, in a plugin with all of them."""
    lines = [*GOOD, *BAD.values()]
    head = dedent(HEAD).lstrip("\n")
    plugin = tmp_path_factory.mktemp("plugin") / "typed.py"
    plugin.write_text(head + "".join(f"    {line}\n" for line in lines), "utf-8")
    config = ["--config-file", str(ROOT / "pyproject.toml")]
    text, crash, _ = checked([*config, "--cache-dir", str(ROOT / ".mypy_cache"), str(plugin)])
    assert not crash
    first = head.count("\n") + 1
    numbers = {int(line.split(":")[1]) - first for line in text.splitlines() if ": error:" in line}
    return [lines[number] for number in sorted(numbers) if number >= 0]


TYPES = """
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from skerry.app.command_dependencies import CommandDependencies
from skerry.commands.table import Command
from skerry.config.root import Config
from skerry.gateway.context import GatewayContext
from skerry.gateway.method import Method
from skerry.gateway.nodes import ConnectedNode
from skerry.gateway.server import Serves
from skerry.ports.checks import Check
from skerry.providers.embedded_model import EmbeddedHost, EmbeddedModel
from skerry.sdk.features import Installation
from skerry.sdk.importing import Importer
from skerry.ports.tool import Tool, ToolSource
from skerry.ports.sandbox import Sandbox
from skerry.ports.transcription import Transcriber
from skerry.ports.model_candidates import Accounts
from skerry.sdk.slots import MemoryHolder, MemoryHost, SandboxHost
from skerry.sdk.tool_host import ToolHost

methods = Sequence[Method[Any]]
commands = Callable[[CommandDependencies], Sequence[Command]]
check = Callable[[Installation], Awaitable[Iterable[Check]]]
status_check = Callable[[Mapping[str, Any]], Iterable[Check]]
service = Callable[[GatewayContext], Coroutine[Any, Any, None]]
tools = Callable[[ToolHost], Iterable[Tool]]
tool_source = Callable[[ToolHost], ToolSource]
http_prefix = Callable[[GatewayContext], Serves]
node_hello = Callable[[GatewayContext, ConnectedNode, int], Mapping[str, Any]]
importer = Callable[[Iterable[str], str, int], Importer]
open_slot = (
    Callable[[MemoryHost], AbstractAsyncContextManager[MemoryHolder]]
    | Callable[[SandboxHost], Sandbox]
    | Callable[[Callable[[], Config], Mapping[str, str], Accounts], Transcriber]
    | Callable[[EmbeddedHost], EmbeddedModel]
)
"""
"""The type of what a feature names, by the method of `FeatureApi`."""


class Named(FeatureApi):
    """Notes each part that a feature registers by its name."""

    def __init__(self, feature: Feature, parts: list[tuple[str, str]]) -> None:
        super().__init__(feature, Features())
        self._parts = parts

    def _lazy(self, path: str) -> LazyPart:
        kind = sys._getframe(1).f_code.co_name
        self._parts.append((kind, f"skerry.features.{self.plugin}.{path}"))
        return super()._lazy(path)


def test_what_features_name_has_the_type_of_its_kind(tmp_path: Path) -> None:
    parts: list[tuple[str, str]] = []
    for feature in FEATURES:
        if feature.registers:
            feature.load("plugin:register")(Named(feature, parts))
    kinds = {kind for kind, _ in parts} - {"call"}
    assert kinds == {
        "methods",
        "commands",
        "check",
        "status_check",
        "service",
        "open_slot",
        "tools",
        "tool_source",
        "http_prefix",
        "importer",
        "node_hello",
    }
    lines = TYPES.strip().splitlines()
    for number, (kind, path) in enumerate(parts):
        module, _, attribute = path.partition(":")
        if kind != "call":  # it gets whatever the command line has
            lines += [f"from {module} import {attribute} as part_{number}"]
            lines += [f"typed_{number}: {kind} = part_{number}"]
    lines += ["wrong: check = typed_0"]
    file = tmp_path / "parts.py"
    file.write_text("\n".join(lines), "utf-8")
    config = ["--config-file", str(ROOT / "pyproject.toml")]
    text, _, _ = checked([*config, "--cache-dir", str(ROOT / ".mypy_cache"), str(file)])
    wrong = [line for line in text.splitlines() if ": error:" in line and "parts.py" in line]
    assert [int(line.split(":")[1]) for line in wrong] == [len(lines)], text


def test_handlers_that_fit_are_accepted(errors: list[str]) -> None:
    assert not set(GOOD) & set(errors)


@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_refused(errors: list[str], what: str) -> None:
    assert BAD[what] in errors
