"""`skerry plugins new`: creates a plugin of several files, with a passing test."""

import re
from argparse import Namespace
from pathlib import Path
from typing import Final

from skerry.cli.render import notice, show, show_json
from skerry.config.plugins import ID_PATTERN
from skerry.model.errors import PluginError

_MAIN: Final = '''"""The plugin NAME."""

from skerry.sdk.api import PluginApi
from skerry.sdk.commands import CommandCall
from skerry.sdk.hooks import MessageReceived
from skerry.sdk.tools import FunctionTool

from .count import CountParams, count
from .settings import Settings


def register(api: PluginApi) -> None:
    """Registers the parts of the plugin; called when it is loaded."""
    settings = api.settings(Settings)

    async def greet(call: CommandCall) -> str:
        return f"{settings.greeting}, {call.arguments or 'you'}!"

    async def received(event: MessageReceived) -> None:
        api.logger.info("a message arrived in %s", event.context.session_key)

    api.register_tool(FunctionTool("TOOL_count", "Count the words of a text.", CountParams, count))
    api.register_command("TOOL_greet", greet, description="greets", accepts_arguments=True)
    api.hooks.message_received(received)
'''
_SETTINGS: Final = '''"""The settings of the plugin: plugins.entries.NAME.config."""

from pydantic import BaseModel


class Settings(BaseModel, extra="forbid"):
    """Settings that a person may change."""

    greeting: str = "Hello"
'''
_COUNT: Final = '''"""A tool: counts words."""

from pydantic import BaseModel, Field

from skerry.sdk.tools import ToolContext, ToolError


class CountParams(BaseModel, extra="forbid"):
    """Parameters of the tool."""

    text: str = Field(description="The text.", max_length=10_000)


async def count(params: CountParams, _: ToolContext) -> str:
    """Count the words; what the model should do instead is an error that it can read."""
    words = len(params.text.split())
    if not words:
        raise ToolError("There are no words. Give a text.")
    return f"{words} words"
'''
_TEST: Final = '''"""Tests of the plugin, with the loader of the gateway itself. Run: pytest"""

from pathlib import Path

import anyio

from skerry.testing.plugin import loaded_plugin

PLUGIN = Path(__file__).parent.parent / "NAME"


def test_the_tool_counts() -> None:
    async def check() -> None:
        async with loaded_plugin(PLUGIN) as plugin:
            assert await plugin.tool("TOOL_count", {"text": "one two"}) == "2 words"

    anyio.run(check)


def test_the_greeting_is_configured() -> None:
    async def check() -> None:
        async with loaded_plugin(PLUGIN, config={"greeting": "Ahoy"}) as plugin:
            assert await plugin.command("TOOL_greet", "Ada") == "Ahoy, Ada!"

    anyio.run(check)
'''


def run(arguments: Namespace) -> int:
    """Runs `skerry plugins new`; returns the exit code."""
    folder = create(Path(arguments.dir), arguments.name)
    if arguments.json:
        show_json({"path": str(folder / arguments.name)})
        return 0
    show(f"{folder / arguments.name} was created. Run its tests: pytest {folder / 'tests'}")
    notice(f"Load it: skerry config set plugins.load.paths '[\"{folder / arguments.name}\"]'")
    return 0


def create(parent: Path, name: str) -> Path:
    """Writes the files of a new plugin; returns their folder, with the plugin and its tests.

    Raises:
        PluginError: the name is not an id, or the folder exists.
    """
    if re.fullmatch(ID_PATTERN, name) is None:
        message = f"{name!r} is not a plugin id."
        raise PluginError(message, "Use a-z, 0-9, - and _, at most 64 characters.")
    folder = parent.absolute() / f"{name}-plugin"
    if folder.exists():
        raise PluginError(f"{folder} exists already.", "Choose another name, or remove it.")
    tool = name.replace("-", "_")
    tool = tool if tool[0].isalpha() else f"p{tool}"
    files = {
        f"{name}/__init__.py": _MAIN,
        f"{name}/settings.py": _SETTINGS,
        f"{name}/count.py": _COUNT,
        f"tests/test_{tool}.py": _TEST,
    }
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.write_text(text.replace("NAME", name).replace("TOOL", tool), "utf-8")
    return folder
