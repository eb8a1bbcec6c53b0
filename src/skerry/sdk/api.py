"""Object passed to a plugin, whose `register(api)` registers its parts there."""

import copy
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from msgspec import Struct, field
from pydantic import BaseModel, ValidationError

from skerry.commands.table import Command, CommandCall
from skerry.hooks.payloads import PromptChange, PromptDraft
from skerry.hooks.runner import Handler
from skerry.infra.atomic import make_private
from skerry.model.errors import PluginError
from skerry.ports.tool import Tool
from skerry.sdk.methods import GatewayMethod, MethodCall
from skerry.sdk.points import HookPoints

P = TypeVar("P", bound=BaseModel)

PROMPT_HOOKS: Final = frozenset({"agent_bootstrap", "before_prompt_build", "before_agent_start"})
"""Hooks by which a plugin changes what the model is told."""
PLAIN_HOOKS: Final = frozenset({"gateway_start", "gateway_stop", "session_end", "session_start"})
"""Hooks that tell nothing of what is said."""


class Registered(Struct):
    """Registrations of a plugin; none takes effect before all of them were accepted."""

    handlers: list[tuple[str, Handler[Any, Any]]] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    methods: list[GatewayMethod] = field(default_factory=list)
    sha256: str = ""
    """Hash of the plugin's files, as they were loaded."""
    services: list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = field(
        default_factory=list
    )


class PluginApi:
    """The gateway as one plugin sees it. It can be used until `register` returns.

    Args:
        plugin: The plugin's id.
        hooks: The names of the hook points.
        config: `plugins.entries.<id>.config`, as the file has it.
        data: The folder for the plugin's own files; a test gives one of its own.
        allow_conversation: Whether it may use hooks that tell what is said.
        allow_prompt: Whether it may change what the model is told.

    """

    def __init__(
        self,
        plugin: str,
        hooks: tuple[str, ...],
        config: Mapping[str, Any] | None = None,
        *,
        data: Path | None = None,
        allow_conversation: bool = True,
        allow_prompt: bool = True,
    ) -> None:
        self.plugin = plugin
        self.config = copy.deepcopy(dict(config or {}))
        self._data = data
        self.logger = logging.getLogger(f"skerry.plugin.{plugin}")
        self._registered = Registered()
        self._hooks = hooks
        self._allow_conversation = allow_conversation
        self._allow_prompt = allow_prompt
        self._sealed = False

    def on(
        self,
        hook: str,
        call: Callable[[object], object],
        *,
        priority: int = 0,
        when: Callable[[object], bool] | None = None,
    ) -> None:
        """Lets `call` take part at the hook of this name, whatever its payload.

        `api.hooks.<name>(call)` does the same, and a type checker compares `call` with the hook.
        Of two handlers, the one with the higher priority runs first. `call` gets the payload of
        the hook and returns None or its change, as the reference says.
        An async function runs in the gateway's event loop and must not block it; a plain function
        runs in a thread. Where `call` is mostly not needed, `when` says so from the payload: it is
        asked at every message, in the event loop, so it only compares.

        Raises:
            PluginError: there is no such point, or the configuration does not allow it.
        """
        self._check_open()
        if hook not in self._hooks:
            near = get_close_matches(hook, self._hooks, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise PluginError(f"Unknown hook {hook!r}.{hint} Hooks: {', '.join(self._hooks)}.")
        switch = f"plugins.entries.{self.plugin}.hooks"
        if hook in PROMPT_HOOKS and not self._allow_prompt:
            raise PluginError(
                f"It registers {hook}, which may change the prompt.",
                f"Allow it with {switch}.allowPromptInjection.",
            )
        if hook not in PLAIN_HOOKS and not self._allow_conversation:
            raise PluginError(
                f"It registers {hook}, which may read conversations.",
                f"Allow it with {switch}.allowConversationAccess.",
            )
        self._registered.handlers.append((hook, Handler(self.plugin, call, priority, when)))

    @property
    def hooks(self) -> HookPoints:
        """Returns the hooks; to call one registers a handler, as `on` does."""
        return cast("HookPoints", _Points(self.on))

    @property
    def data_dir(self) -> Path:
        """Returns the folder for the plugin's own files, which only the owner can read.

        Raises:
            PluginError: there is none, or it cannot be made.
        """
        if self._data is None:
            raise PluginError("There is no folder for data here.")
        try:
            make_private(self._data)
        except OSError as error:
            raise PluginError(f"{self._data} cannot be made: {error.strerror}.") from error
        return self._data

    def settings(self, model: type[P]) -> P:
        """Returns `plugins.entries.<id>.config`, checked against a pydantic model.

        Raises:
            PluginError: it does not fit; the message names each key.
        """
        try:
            return model.model_validate(self.config)
        except ValidationError as error:
            place = f"plugins.entries.{self.plugin}.config"
            wrong = "; ".join(
                f"{'.'.join((place, *map(str, one['loc'])))}: {one['msg']}"
                for one in error.errors(include_url=False, include_input=False)
            )
            raise PluginError(f"{wrong}.", f"Correct {place}.") from error

    def register_prompt_section(
        self, title: str, render: Callable[[PromptDraft], Awaitable[str]]
    ) -> None:
        """Adds a section to the system prompt of each run; an empty text adds none.

        It stands behind the rest, and `skerry prompt show` calls `render` too. A text that is the
        same from run to run costs little: providers keep the beginning of a request.

        Raises:
            PluginError: the configuration does not allow it, or `register` has returned.
        """

        async def section(draft: PromptDraft) -> PromptChange | None:
            text = (await render(draft)).strip()
            return PromptChange(append_system_context=f"## {title}\n\n{text}") if text else None

        self.hooks.before_prompt_build(section)
        self._registered.handlers[-1][1].shown = True

    def register_tool(self, tool: Tool) -> None:
        """Offers a tool to the model; `skerry.sdk.tools.FunctionTool` makes one of a function.

        Raises:
            PluginError: `register` has returned.
        """
        self._check_open()
        self._registered.tools.append(tool)

    def register_command(
        self,
        name: str,
        run: Callable[[CommandCall], Awaitable[str]],
        *,
        description: str,
        accepts_arguments: bool = False,
        owner_only: bool = True,
    ) -> None:
        """Answers `/name` with what `run` returns, in Markdown and without a model.

        Raises:
            PluginError: `register` has returned.
        """
        self._check_open()
        command = Command(name, description, run, accepts_arguments, owner_only, self.plugin)
        self._registered.commands.append(command)

    def register_gateway_method(
        self,
        name: str,
        params: type[P],
        run: Callable[[P, MethodCall], Awaitable[Any]],
        *,
        scope: str = "operator.admin",
    ) -> None:
        """Answers requests for the method `<id>.<name>` with the JSON that `run` returns.

        Args:
            name: What follows the plugin's id and a dot.
            params: What the parameters are checked against, before `run` is called.
            run: Gets the parameters and who asks.
            scope: What the caller needs: `operator.read`, `operator.write` or `operator.admin`.

        Raises:
            PluginError: `register` has returned.
        """
        self._check_open()
        method = GatewayMethod(f"{self.plugin}.{name}", params, run, scope, self.plugin)
        self._registered.methods.append(method)

    def register_service(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs an async function from the start of the gateway until it stops.

        One that raises is started again after 1 s, then 2 s, up to a minute; one that returns has
        ended. When the gateway stops it is cancelled and has ten seconds to end.

        Raises:
            PluginError: `register` has returned.
        """
        self._check_open()
        self._registered.services.append((f"{self.plugin}.{name}", run))

    def _check_open(self) -> None:
        if self._sealed:
            raise PluginError("It registered something after `register` had returned.")


class _Points:
    """Implements `HookPoints` for every name."""

    def __init__(self, on: Callable[..., None]) -> None:
        self._on = on

    def __getattr__(self, name: str) -> Callable[..., None]:
        return partial(self._on, name)


def sealed(api: PluginApi) -> Registered:
    """Lets the plugin register nothing more; returns what it registered.

    For the loader, and for tests of a plugin: a plugin itself has no use for it.
    """
    api._sealed = True  # noqa: SLF001 - kept from plugins, not from here
    return api._registered  # noqa: SLF001 - as above
