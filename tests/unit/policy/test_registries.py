"""Walks the registries: each method, command, directive and tool has a row, each row its object."""

import ast
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import skerry
from skerry.app.build import Application
from skerry.app.extensions import OwnTools
from skerry.commands import directives
from skerry.config.root import Config
from skerry.features.memory.assembly import make_tools
from skerry.features.memory.service import MemorySearchService
from skerry.gateway.dispatch import MethodTable
from skerry.gateway.method import Method
from skerry.hooks.hooks import Hooks
from skerry.infra.rooted_fs import Opened, RootedFolder
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.ids import AgentId, SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.policy import access, decide
from skerry.policy.access import ADMIN, COMMANDS, METHODS, Role, Verb
from skerry.policy.decide import Actor
from skerry.policy.effect import ToolEffect
from skerry.policy.file_gate import FileGate
from skerry.policy.file_kinds import INSTRUCTIONS, FileKind, kind_of
from skerry.policy.file_records import FileRecords
from skerry.policy.tool_names import OWNER_ONLY
from skerry.policy.tool_policy import ToolPolicy
from skerry.ports.tool import Tool, ToolContext, call_of, offered, verb_of
from skerry.sdk.tool_host import ToolHost
from skerry.testing.clock import FakeClock
from skerry.workspace.prompt_files import BOOT, ORDER
from tests.support.whole import whole_gateway

SOURCE = Path(skerry.__file__).parent
TOOLS = {
    "browser": Verb.USE,
    "image": Verb.READ,
    "message": Verb.USE,
    "agents_list": Verb.USE,
    "gateway": Verb.USE,
    "session_status": Verb.USE,
    "sessions_history": Verb.USE,
    "sessions_list": Verb.USE,
    "sessions_send": Verb.USE,
    "sessions_spawn": Verb.USE,
    "apply_patch": Verb.WRITE,
    "cron": Verb.USE,
    "edit": Verb.WRITE,
    "exec": Verb.USE,
    "canvas": Verb.USE,
    "process": Verb.USE,
    "memory_append": Verb.WRITE,
    "memory_forget": Verb.NOTE,
    "memory_get": Verb.RECALL,
    "memory_search": Verb.RECALL,
    "memory_write": Verb.NOTE,
    "nodes": Verb.USE,
    "read": Verb.READ,
    "session_search": Verb.USE,
    "web_fetch": Verb.USE,
    "web_search": Verb.USE,
    "write": Verb.WRITE,
}
"""Effects that our tools declare."""
CHOSEN = {
    "browser",
    "canvas",
    "cron",
    "image",
    "message",
    "agents_list",
    "gateway",
    "nodes",
    "session_status",
    "sessions_history",
    "sessions_list",
    "sessions_send",
    "sessions_spawn",
}
"""Tools that are offered only where the configuration names them."""
GUEST = Caller(SessionKey.parse("agent:main:telegram:direct:9"), PeerKind.DIRECT, Origin.STRANGER)


@asynccontextmanager
async def gateway(home: Path) -> AsyncIterator[Application]:
    """Yields a gateway with the built-in parts only."""
    async with whole_gateway(home, Hooks()) as (application, _):
        yield application


async def registries(home: Path) -> dict[str, tuple[set[str], set[str]]]:
    """Returns for each registry the names of what there is, and those of its rows."""
    async with gateway(home) as application:
        commands = {command.name for command in application.context.commands}
        tools = set(application.dispatch.runtime.tools)
    made = {method.name for method in vars(MethodTable())["_methods"].values()}
    made |= {method.name for method in MethodTable().methods}
    commands -= {"forget", "remember"}  # brought by the memory, with scopes of their own
    return {
        "methods": (made, set(MethodTable().needs)),
        "commands": (commands, set(access.COMMANDS)),
        "directives": (set(directives.NAMES), set(access.COMMANDS) & set(directives.NAMES)),
        "tools": (tools | {"memory_append"}, set(TOOLS)),  # of the flush alone
    }


async def strays(home: Path) -> dict[str, set[str]]:
    """Returns the objects without a row and the rows without an object, of each registry."""
    found = await registries(home)
    return {name: there ^ rows for name, (there, rows) in found.items() if there ^ rows}


async def test_everything_has_its_row_and_every_row_its_object(tmp_path: Path) -> None:
    assert await strays(tmp_path / "home") == {}
    assert specs() == set(TOOLS), "no tool is made elsewhere in the source"


@pytest.mark.parametrize(
    ("table", "row", "where"),
    [
        ("COMMANDS", "new", ["commands"]),
        ("COMMANDS", "think", ["commands", "directives"]),
    ],
)
async def test_a_row_that_is_taken_away_or_added_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, row: str, where: list[str]
) -> None:
    rows: Mapping[str, Any] = getattr(access, table)
    monkeypatch.setattr(access, table, {name: one for name, one in rows.items() if name != row})
    assert await strays(tmp_path / "less") == {name: {row} for name in where}
    monkeypatch.setattr(access, table, {**rows, "nothing": rows[row]})
    assert await strays(tmp_path / "more") == {where[0]: {"nothing"}}


@pytest.mark.parametrize("name", sorted(METHODS))
def test_each_row_of_a_method_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "METHODS", {one: n for one, n in METHODS.items() if one != name})
    with pytest.raises(RuntimeError, match=f"no row for: {name}$"):
        _ = MethodTable().methods


@pytest.mark.parametrize("name", sorted(METHODS))
def test_each_row_of_a_method_has_one(name: str) -> None:
    found = {method.name: method for method in MethodTable().methods}
    assert isinstance(found[name], Method)


@pytest.mark.parametrize("name", sorted(TOOLS.keys() - {"memory_append"}))
def test_each_tool_declares_its_effect(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = own_tools(tmp_path)[name]
    assert verb_of(tool) is TOOLS[name]
    monkeypatch.delattr(type(tool), "verb")
    with pytest.raises(RuntimeError, match=f"no verb is declared by: {name}$"):
        _ = list(own_tools(tmp_path))


def own_tools(home: Path) -> OwnTools:
    """Returns all tools, those of features too."""
    host = ToolHost(
        config=partial(Config, state_dir=home, path=home / "skerry.json"),
        store=None,  # type: ignore[arg-type]  # no tool is called
        environ={},
        clock=FakeClock(),
    )
    return OwnTools(memory_tools, lambda: host)


def memory_tools() -> list[Tool]:
    return list(make_tools(MemorySearchService(pytest.fail, pytest.fail, FakeClock(), pytest.fail)))  # type: ignore[arg-type]  # not asked


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_row_of_a_command_names_a_method_and_gives_its_scope(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = COMMANDS[name]
    need = access.SETTINGS if method == access.PATCH else METHODS[method]
    assert need.role is Role.OPERATOR
    assert access.command_scope(name) == need.scope
    monkeypatch.setattr(access, "COMMANDS", {n: m for n, m in COMMANDS.items() if n != name})
    assert access.command_scope(name) == "", "then it needs the admin scope"


async def test_every_directive_is_a_command_and_so_is_every_alias(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as application:
        commands = application.context.commands
        for alias, name in {**directives.ALIASES, **{n: n for n in directives.NAMES}}.items():
            command = commands.find(alias) or commands.find(name)
            assert command is not None, alias
            assert command.name == name
            assert command.need.scope == access.command_scope(name)
            found = directives.directives(f"/{alias} {level(name)}", lambda _: True)
            assert [directive.name for directive in found] == [name], alias
        assert set(directives.LEVELS) <= set(directives.NAMES)


def level(name: str) -> str:
    return str(next(iter(directives.LEVELS.get(name, ("m",)))))


async def test_a_command_whose_row_is_gone_is_for_admins_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path / "home") as application:
        assert application.context.commands.find("help") is not None
        monkeypatch.setattr(access, "COMMANDS", {})
        ours = [command for command in application.context.commands if not command.scope]
        assert {command.need.scope for command in ours} == {ADMIN}


class RecordingGate(FileGate, frozen=True):
    """A gate that records the requested effects."""

    asked: list[Verb] | None = None

    def _refusal(self, verb: Verb, opened: Opened, closed: str | None) -> str | None:
        assert self.asked is not None
        self.asked.append(verb)
        return super()._refusal(verb, opened, closed)


class Open:
    """Nothing is closed."""

    def reading(self, _: Path) -> str | None:
        return None

    def writing(self, _: Path) -> str | None:
        return None


DOT = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PATCH = "*** Begin Patch\n*** Add File: other.txt\n+x\n*** End Patch"
ARGUMENTS: Mapping[str, Mapping[str, object]] = {
    "apply_patch": {"input": PATCH},
    "image": {"image": "dot.png"},
    "edit": {"path": "note.txt", "oldText": "note", "newText": "word"},
    "read": {"path": "note.txt"},
    "write": {"path": "other.txt", "content": "x"},
}
FILE_VERBS = {Verb.READ, Verb.WRITE}


@pytest.mark.parametrize("name", sorted(one for one, verb in TOOLS.items() if verb in FILE_VERBS))
async def test_a_tool_asks_the_policy_for_what_it_declares(tmp_path: Path, name: str) -> None:
    async with gateway(tmp_path / "home") as application:
        tool: Tool | None = application.dispatch.runtime.tools.get(name)
        root = application.settings.config.workspace(AgentId("main"))
    if tool is None:
        from skerry.runtime.compaction.memory_flush import MemoryAppend  # noqa: PLC0415 - is in no registry

        tool = MemoryAppend("2026-11-22", 0)
    verbs: list[Verb] = []
    gate = RecordingGate(Open(), frozenset({root}), records=FileRecords(), asked=verbs)
    workspace = RootedFolder(root, rules=gate)
    (root / "dot.png").write_bytes(DOT)
    arguments = dict(ARGUMENTS.get(name, {"text": "A note."}))
    result = await tool.run(arguments, ToolContext(workspace))
    assert not result.is_error
    assert TOOLS[name] in verbs
    assert set(verbs) <= FILE_VERBS
    assert (Verb.WRITE in verbs) is (TOOLS[name] is Verb.WRITE)


MEMORY_ARGUMENTS: Mapping[str, Mapping[str, object]] = {
    "memory_forget": {"text": "the dentist in Mill Road"},
    "memory_get": {"path": "MEMORY.md"},
    "memory_search": {"query": "dentist"},
    "memory_write": {"text": "The dentist is in Mill Road."},
}
OWNER = Caller(SessionKey.parse("agent:main:main"), PeerKind.DIRECT, Origin.OWNER, is_private=True)


@pytest.mark.parametrize("name", sorted(MEMORY_ARGUMENTS))
async def test_a_tool_of_the_memory_does_what_its_effect_allows(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path / "home") as application:
        tool = application.dispatch.runtime.tools[name]
        root = application.settings.config.workspace(AgentId("main"))
        context = ToolContext(RootedFolder(root), caller=OWNER)
        assert await outcome(tool, name, context), "the control"
        monkeypatch.setattr(type(tool), "verb", Verb.READ)
        assert not await outcome(tool, name, context), "the policy is asked for what it declares"


async def outcome(tool: Tool, name: str, context: ToolContext) -> bool:
    """Returns whether the tool had its effect."""
    try:
        result = await tool.run(dict(MEMORY_ARGUMENTS[name]), context)
    except ToolError:
        return False
    return '"disabled"' not in result.text.replace(" ", "") and not result.is_error


async def test_the_tools_of_the_memory_are_never_a_guests(tmp_path: Path) -> None:
    async with gateway(tmp_path / "home") as application:
        tools = list(application.dispatch.runtime.tools.values())
    given = {tool.spec.name for tool in offered(tools, GUEST, ToolPolicy(frozenset(TOOLS)))}
    assert given == {n for n, v in TOOLS.items() if v not in {Verb.RECALL, Verb.NOTE}} - {
        "memory_append",
        *CHOSEN,
    }
    for name, verb in TOOLS.items():
        request = decide.Request(
            Actor.of(GUEST), Verb.USE, name, effect=verb, tools=ToolPolicy(frozenset(TOOLS))
        )
        mine = verb in {Verb.RECALL, Verb.NOTE} or name in OWNER_ONLY
        assert decide.decide(request).allowed is not mine, name


FOREIGNERS = {
    "a stranger": GUEST,
    "a listed person": replace(GUEST, origin=Origin.KNOWN),
    "a plugin": Caller(SessionKey.parse("main"), PeerKind.DIRECT, Origin.PLUGIN),
    "a hook": Caller(SessionKey.parse("hook:1"), PeerKind.DIRECT, Origin.STRANGER),
    "a boot in a group": Caller(
        SessionKey.parse("agent:main:telegram:group:1"), PeerKind.GROUP, Origin.BOOT
    ),
    "a sub-agent of a stranger": replace(GUEST, key=SessionKey.parse("agent:main:subagent:1")),
}


@pytest.mark.parametrize("caller", FOREIGNERS.values(), ids=FOREIGNERS)
async def test_other_people_are_offered_no_tool_and_can_call_none(
    tmp_path: Path, caller: Caller
) -> None:
    async with gateway(tmp_path / "home") as application:
        runtime = application.dispatch.runtime
        tools = list(runtime.tools.values())
        layers = runtime.tools.layers(caller, runtime.config(), ("p", "m"))
    assert offered(tools, caller, layers) == []
    context = ToolContext(RootedFolder(tmp_path), caller=caller)
    for tool in tools:
        arguments = dict(ARGUMENTS.get(tool.spec.name, {}))
        decision = decide.decide(call_of(tool, arguments, context, layers))
        assert decision.effect is ToolEffect.DENY, tool.spec.name


def test_every_file_that_a_prompt_or_a_boot_reads_is_kept_for_the_owner() -> None:
    root = frozenset({Path("/w")})
    for name in (*ORDER, BOOT):
        assert kind_of(Opened(Path("/w") / name), root) in {
            FileKind.INSTRUCTIONS,
            FileKind.MEMORY,
        }, name
    assert {one.casefold() for one in (*ORDER, BOOT)} - {"memory.md"} <= INSTRUCTIONS


def specs() -> set[str]:
    """Returns the names of all tools that the source makes; a plugin's are variables."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if "testing" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "ToolSpec":
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    found.add(str(first.value))
    return found
