"""Plugin files: loaded and refused ones, and that no plugin affects another."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import pytest

from skerry.commands.table import Command, CommandCall, CommandTable, answer
from skerry.config.check import check
from skerry.hooks.events import GatewayStart
from skerry.hooks.hooks import Hooks
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.errors import PluginError
from skerry.model.ids import SessionKey
from skerry.plugins import guarded, registering
from skerry.plugins.loader import Plugins, load_plugins
from skerry.ports.plugins import PluginStatus
from skerry.ports.tool import ToolContext
from skerry.sdk.methods import MethodCall

GOOD = """
    async def seen(event): ...
    def register(api): api.on("gateway_start", seen)
"""
TOOL = """
    from pydantic import BaseModel
    from skerry.sdk.tools import FunctionTool, ToolError, ToolResult
    import anyio
    class P(BaseModel):
        n: int = 0
    async def run(params, context):
        {body}
    def register(api): api.register_tool(FunctionTool("odd", "Odd.", P, run))
"""


class Folder:
    """A state directory with plugin files."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.names: list[str] = []

    def add(self, name: str, code: str) -> None:
        file = self.home / f"{name}.py"
        file.write_text(dedent(code))
        file.chmod(0o600)
        self.names.append(file.name)

    @asynccontextmanager
    async def loaded(self, section: Mapping[str, Any] | None = None) -> AsyncIterator[Plugins]:
        fields = {"load": {"paths": self.names}, **(section or {})}
        path = self.home / "skerry.json"
        config, _ = check({"plugins": fields}, state_dir=self.home, path=path)
        async with Hooks() as hooks:
            yield await load_plugins(config, hooks, CommandTable(), {"read"})


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def standing(plugins: Plugins) -> dict[str, str]:
    return {report.id: report.status.value for report in plugins.reports}


async def test_a_file_with_register_takes_part(folder: Folder) -> None:
    folder.add("good", GOOD)
    async with folder.loaded() as plugins:
        (report,) = plugins.reports
        assert (report.status, report.hooks) == (PluginStatus.LOADED, ("gateway_start",))
        assert [handler.plugin for handler in plugins.hooks.gateway_start.handlers] == ["good"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def register(api): raise ValueError('no tea')", "It raised ValueError: no tea"),
        ("import nothing_of_that_name", "It raised ModuleNotFoundError"),
        ("def regi(ster", "It raised SyntaxError"),
        ("x = 1", "no function `register(api)`"),
        ("raise SystemExit(3)", "SystemExit"),
        ("def register(api): api.on('gateway_strt', print)", "Did you mean 'gateway_start'"),
        ("def register(api): api.no_such_thing()", "It raised AttributeError"),
    ],
)
async def test_a_broken_file_is_reported_and_the_others_are_loaded(
    folder: Folder, code: str, reason: str
) -> None:
    folder.add("bad", code)
    folder.add("good", GOOD)
    async with folder.loaded() as plugins:
        assert standing(plugins) == {"bad": "failed", "good": "loaded"}
        assert reason in plugins.reports[0].reason


async def test_a_register_that_hangs_is_left_behind(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registering, "REGISTER_SECONDS", 1.0)
    folder.add("slow", "import threading\ndef register(api): threading.Event().wait(600)")
    folder.add("good", GOOD)
    with anyio.fail_after(60):
        async with folder.loaded() as plugins:
            assert standing(plugins) == {"slow": "failed", "good": "loaded"}


async def test_a_time_out_of_the_plugin_itself_is_told_as_what_it_raised(folder: Folder) -> None:
    folder.add("own", "def register(api): raise TimeoutError('no tea')")
    async with folder.loaded() as plugins:
        assert plugins.reports[0].reason == "It raised TimeoutError: no tea"


async def test_a_plugin_is_taken_whole_or_not_at_all(folder: Folder) -> None:
    folder.add(
        "half",
        """
        async def run(call): return ""
        def register(api):
            api.on("gateway_start", print)
            api.register_command("fine", run, description="")
            api.register_command("Not Fine", run, description="")
        """,
    )
    async with folder.loaded() as plugins:
        assert standing(plugins) == {"half": "failed"}
        assert not plugins.hooks.gateway_start.handlers
        assert list(plugins.commands) == []


@pytest.mark.parametrize(
    ("section", "status"),
    [
        ({"enabled": False}, "disabled"),
        ({"deny": ["good"]}, "disabled"),
        ({"allow": ["other"]}, "disabled"),
        ({"allow": ["good"]}, "loaded"),
        ({"entries": {"good": {"enabled": False}}}, "disabled"),
        ({"entries": {"good": {"sha256": "0" * 64}}}, "failed"),
        ({"entries": {"good": {"hooks": {"allowConversationAccess": False}}}}, "loaded"),
    ],
)
async def test_the_configuration_says_what_is_loaded(
    folder: Folder, section: dict[str, Any], status: str
) -> None:
    folder.add("good", GOOD)
    async with folder.loaded(section) as plugins:
        assert standing(plugins) == {"good": status}


async def test_what_the_configuration_denies_is_refused(folder: Folder) -> None:
    folder.add("nosy", "def register(api): api.on('before_prompt_build', print)")
    denied = {"entries": {"nosy": {"hooks": {"allowPromptInjection": False}}}}
    async with folder.loaded(denied) as plugins:
        assert standing(plugins) == {"nosy": "failed"}
        assert "allowPromptInjection" in plugins.reports[0].remedy


async def test_two_files_of_one_name_are_one_plugin(folder: Folder) -> None:
    (folder.home / "other").mkdir(mode=0o700)
    folder.add("good", GOOD)
    folder.add("other/good", GOOD)
    async with folder.loaded() as plugins:
        assert [report.status.value for report in plugins.reports] == ["loaded", "failed"]
        assert len(plugins.hooks.gateway_start.handlers) == 1


@pytest.mark.parametrize(
    "line",
    [
        "api.register_tool(print)",
        "api.register_tool(Tool(ToolSpec(5, 'd', {})))",
        "api.register_tool(Tool(ToolSpec('a', 'd', {'x': object()})))",
        "api.register_tool(Tool(ToolSpec('a b', 'd', {})))",
        "api.register_tool(Tool(ToolSpec('a', 'd', {})))",
        "api.register_command(5, print, description='x')",
        "api.register_command('a', print, description=5)",
        "api.register_command('a', None, description='x')",
        "api.register_gateway_method('m', dict, print)",
        "api.register_gateway_method('m', BaseModel, print, scope=[])",
        "api.register_gateway_method('m', BaseModel, None)",
        "api.on(5, print)",
        "api.on('gateway_start', 5)",
        "api.on('gateway_start', print, priority='x')",
        "raise SystemExit",
    ],
)
async def test_whatever_a_plugin_registers_the_others_are_loaded(folder: Folder, line: str) -> None:
    folder.add(
        "odd",
        f"""
        from pydantic import BaseModel
        from skerry.sdk.tools import ToolSpec
        class Tool:
            def __init__(self, spec): self.spec = spec
            run = None
        def register(api): {line}
        """,
    )
    folder.add("good", GOOD)
    async with folder.loaded() as plugins:
        assert standing(plugins) == {"odd": "failed", "good": "loaded"}
        assert [handler.plugin for handler in plugins.hooks.gateway_start.handlers] == ["good"]


async def test_what_a_plugin_does_to_its_configuration_is_its_own_matter(folder: Folder) -> None:
    folder.add("good", "def register(api): api.config['list'].append(2)")
    section = {"entries": {"good": {"config": {"list": [1]}}}}
    async with folder.loaded(section) as plugins:
        assert standing(plugins) == {"good": "loaded"}
    assert section["entries"]["good"]["config"] == {"list": [1]}


async def test_a_plugin_cannot_take_the_name_of_a_tool_of_ours(folder: Folder) -> None:
    folder.add("odd", TOOL.format(body="return ''").replace('"odd"', '"read"'))
    async with folder.loaded() as plugins:
        assert "A tool read exists already" in plugins.reports[0].reason


@pytest.mark.parametrize(
    ("body", "said", "failures"),
    [
        ("return 'fine'", "fine", 0),
        ("raise ToolError('Take another.')", "Take another.", 0),
        ("raise KeyError('x')", "failed: 'x'", 1),
        ("return 7", "it returned int, not a ToolResult", 1),
        ("return ToolResult(None)", "it returned ToolResult", 1),
        ("await anyio.sleep_forever()", "did not return within", 1),
        ("raise SystemExit(1)", "SystemExit", 1),
    ],
)
async def test_a_tool_that_fails_is_a_result_and_is_counted(
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    said: str,
    failures: int,
) -> None:
    monkeypatch.setattr(guarded, "TOOL_SECONDS", 1.0)
    folder.add("odd", TOOL.format(body=body))
    async with folder.loaded() as plugins:
        assert standing(plugins) == {"odd": "loaded"}, plugins.reports
        context = ToolContext(RootedFolder(folder.home))
        try:
            with anyio.fail_after(60):
                text = (await plugins.tools["odd"].run({"n": 1}, context)).text
        except Exception as error:  # noqa: BLE001 - what the plugin itself said
            text = str(error)
        assert said in text
        (report,) = plugins.handlers()
        assert (report.hook, report.failures) == ("tool odd", failures)


async def test_a_command_that_breaks_is_an_answer(folder: Folder) -> None:
    folder.add(
        "talk",
        """
        from skerry.sdk.commands import CommandError
        async def good(call): return f"heard {call.arguments}"
        async def bad(call): return 1 / 0
        async def sorry(call): raise CommandError("There is none.")
        def register(api):
            api.register_command("good", good, description="", accepts_arguments=True)
            api.register_command("bad", bad, description="")
            api.register_command("sorry", sorry, description="")
        """,
    )
    async with folder.loaded() as plugins:
        said = {command.name: await answer(command, _call("you")) for command in plugins.commands}
    assert said == {
        "good": "heard you",
        "bad": "⚠️ /bad failed: division by zero.",
        "sorry": "⚠️ There is none.",
    }


async def test_a_command_is_the_owners_unless_its_plugin_gives_it_to_others(
    folder: Folder,
) -> None:
    folder.add(
        "talk",
        """
        async def run(call): return "done"
        def register(api):
            api.register_command("mine", run, description="")
            api.register_command("ours", run, description="", owner_only=False)
        """,
    )
    async with folder.loaded() as plugins:
        said = {
            command.name: await answer(command, _call("", is_owner=False))
            for command in plugins.commands
        }
    assert said == {"mine": "Only the owner may use /mine.", "ours": "done"}


def _call(arguments: str, *, is_owner: bool = True) -> CommandCall:
    return CommandCall("x", arguments, SessionKey.main(), "webchat", is_owner=is_owner)


async def test_a_method_answers_json_or_an_error(folder: Folder) -> None:
    folder.add(
        "serve",
        """
        from pydantic import BaseModel
        class P(BaseModel): ...
        async def good(params, call): return {"scopes": list(call.scopes)}
        async def bad(params, call): return object()
        def register(api):
            api.register_gateway_method("good", P, good, scope="operator.read")
            api.register_gateway_method("bad", P, bad)
        """,
    )
    caller = MethodCall(("operator.read",), "c1")
    async with folder.loaded() as plugins:
        good, bad = plugins.methods["serve.good"], plugins.methods["serve.bad"]
        assert await good.run(good.params(), caller) == {"scopes": ["operator.read"]}
        with pytest.raises(PluginError, match="not JSON"):
            await bad.run(bad.params(), caller)


async def test_a_method_with_a_scope_that_is_none_is_refused(folder: Folder) -> None:
    folder.add(
        "serve",
        """
        from pydantic import BaseModel
        async def good(params, call): return None
        def register(api): api.register_gateway_method("good", BaseModel, good, scope="")
        """,
    )
    async with folder.loaded() as plugins:
        assert "needs one of the scopes" in plugins.reports[0].reason


async def test_what_is_registered_late_is_not_taken(folder: Folder) -> None:
    folder.add("late", "kept = []\ndef register(api): kept.append(api)")
    async with folder.loaded() as plugins:
        import sys  # noqa: PLC0415 - the module exists since a line ago

        (api,) = sys.modules["skerry_plugin_late"].kept
        with pytest.raises(PluginError, match="had returned"):
            api.on("gateway_start", print)
        await plugins.hooks.gateway_start.run(GatewayStart(port=1))


def test_the_command_of_a_plugin_cannot_take_the_name_of_ours() -> None:
    async def run(_: CommandCall) -> str:
        return ""

    table = CommandTable()
    table.add(Command("help", "", run))
    with pytest.raises(ValueError, match="already exists, registered by Skerry"):
        table.add(Command("help", "", run, plugin="x"))


async def test_plugins_that_hang_take_one_deadline_together(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registering, "REGISTER_SECONDS", 10.0)
    meet = """
        import threading
        everybody = __import__("sys").modules.setdefault("meet_here", threading.Barrier(3))
        def register(api): everybody.wait(600)
    """
    for name in ("one", "two", "three"):  # each returns only while the others run too
        folder.add(name, meet)
    with anyio.fail_after(60):
        async with folder.loaded() as plugins:
            assert standing(plugins) == dict.fromkeys(("one", "two", "three"), "loaded")
    sys.modules.pop("meet_here")


async def test_the_text_of_a_method_s_exception_is_not_sent_to_its_caller(folder: Folder) -> None:
    folder.add(
        "serve",
        """
        from pydantic import BaseModel
        class P(BaseModel): n: int = 0
        async def boom(params, call): raise ValueError("sk-secret")
        async def wrong(params, call): P.model_validate({"n": "sk-secret"})
        def register(api):
            api.register_gateway_method("boom", P, boom)
            api.register_gateway_method("wrong", P, wrong)
        """,
    )
    caller = MethodCall(("operator.admin",), "c1")
    async with folder.loaded() as plugins:
        for name, text in (("serve.boom", "it raised ValueError"), ("serve.wrong", "n: Input")):
            method = plugins.methods[name]
            with pytest.raises(PluginError, match=text) as caught:
                await method.run(method.params(), caller)
            assert "sk-secret" not in str(caught.value)
        (boom,) = [handler for handler in plugins.handlers() if "boom" in handler.hook]
        assert boom.last_error == "sk-secret"  # the owner reads it
