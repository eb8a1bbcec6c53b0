"""Object passed to a plugin, whose `register(api)` registers its parts there."""

import copy
import logging
import re
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, ValidationError

from skerry.commands.table import Command, CommandCall
from skerry.hooks.payloads import PromptChange, PromptDraft
from skerry.hooks.runner import Handler
from skerry.infra.atomic import make_private
from skerry.infra.spelling import spelt_like
from skerry.model.errors import PluginError
from skerry.policy.access import READ
from skerry.ports.tool import Tool
from skerry.sdk.cli import CliCall, CliCommand
from skerry.sdk.fetch import PluginHttp
from skerry.sdk.hook_points import HookPoints
from skerry.sdk.host import PluginHost
from skerry.sdk.http import HttpRequest, HttpResponse, HttpRoute
from skerry.sdk.methods import GatewayMethod, MethodCall
from skerry.sdk.provides import Provides
from skerry.sdk.registrations import DoctorCheck, Event, Panel, Registered, Service
from skerry.sdk.sockets import PluginSockets
from skerry.sdk.tables import Database
from skerry.sdk.transcripts import Transcripts

P = TypeVar("P", bound=BaseModel)

PROMPT_HOOKS: Final = frozenset({"agent_bootstrap", "before_prompt_build", "before_agent_start"})
"""Hooks by which a plugin changes what the model is told."""
PLAIN_HOOKS: Final = frozenset({"gateway_start", "gateway_stop", "session_end", "session_start"})
"""Hooks that tell nothing of what is said."""
HOOKS: Final = tuple(HookPoints.__annotations__)
"""The names of all hooks."""
MAX_BODY: Final = 1_048_576
"""Bytes of a request to a route that registers no other limit."""
ROUTE_SECONDS: Final = 30.0
PATH: Final = re.compile(r"(?!panels(/|\Z))[A-Za-z0-9_-]+(/[A-Za-z0-9._-]+)*|")
"""Paths of routes; those below `panels` are the page's."""


class PluginApi(Provides):
    """The gateway as one plugin sees it. It can be used until `register` returns.

    Args:
        plugin: The plugin's id.
        config: `plugins.entries.<id>.config`, as the file has it.
        data: The folder for the plugin's own files; a test gives one of its own.
        allow_conversation: Whether it may use hooks that tell what is said.
        allow_prompt: Whether it may change what the model is told.
        host: Parts of the gateway; without one the plugin is run by a command or a test.

    """

    def __init__(
        self,
        plugin: str,
        config: Mapping[str, Any] | None = None,
        *,
        data: Path | None = None,
        allow_conversation: bool = True,
        allow_prompt: bool = True,
        host: PluginHost | None = None,
    ) -> None:
        super().__init__(plugin, allow_prompt=allow_prompt)
        host = host or PluginHost()
        self.http: Final = PluginHttp(host.network, config=config)
        """Fetches addresses under the network policy; it can be used as long as the plugin runs."""
        self.sockets: Final = PluginSockets(host.network, config)
        """Opens connections to servers that the configuration of the plugin names."""
        self.clock: Final = host.clock
        """Gives the time, in milliseconds since 1970; a test sets it."""
        self.reach: Final = host.reach
        """Names a point at which a test may kill the gateway, such as `tea.poured`."""
        self.embeddings: Final = host.embeddings
        """Embeds texts with the models of agents; it can be used as long as the plugin runs."""
        self._transcripts = host.transcripts
        self.config = copy.deepcopy(dict(config or {}))
        self._data = data
        self.logger = logging.getLogger(f"skerry.plugin.{plugin}")
        self._allow_conversation = allow_conversation

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
        if hook not in HOOKS:
            near = spelt_like(hook, HOOKS)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise PluginError(f"Unknown hook {hook!r}.{hint} Hooks: {', '.join(HOOKS)}.")
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
    def transcripts(self) -> Transcripts:
        """Returns the messages of all conversations; it can be used as long as the plugin runs.

        Raises:
            PluginError: the configuration does not allow it.
        """
        if not self._allow_conversation:
            switch = f"plugins.entries.{self.plugin}.hooks.allowConversationAccess"
            raise PluginError("It reads transcripts.", f"Allow it with {switch}.")
        return self._transcripts

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

    state_dir = data_dir
    """The same folder, by the name that other programs have for it."""

    def settings(self, model: type[P]) -> P:
        """Returns `plugins.entries.<id>.config`, checked against a pydantic model.

        Raises:
            PluginError: it does not fit; the message names each key.
        """
        try:
            return model.model_validate(self.config)
        except ValidationError as error:
            key = f"plugins.entries.{self.plugin}.config"
            faults = "; ".join(
                f"{'.'.join((key, *map(str, fault['loc'])))}: {fault['msg']}"
                for fault in error.errors(include_url=False, include_input=False)
            )
            raise PluginError(f"{faults}.", f"Correct {key}.") from error

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

    def register_tool(self, tool: Tool, *, optional: bool = False) -> None:
        """Offers a tool to the model; `skerry.sdk.tools.FunctionTool` makes one of a function.

        An `optional` one is offered only where `tools.allow` or `tools.alsoAllow` of the agent
        names it.

        Raises:
            PluginError: `register` has returned.
        """
        self._check_open()
        self._registered.tools.append(tool)
        if optional:
            self._registered.optional.add(tool.spec.name)

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

    def register_service(self, name: str, run: Service) -> None:
        """Runs an async function from the start of the gateway until it stops.

        One that raises is started again after 1 s, then 2 s, up to a minute; one that returns has
        ended. When the gateway stops it is cancelled and has ten seconds to end.

        Raises:
            PluginError: `register` has returned.
        """
        self._check_open()
        self._registered.services.append((f"{self.plugin}.{name}", run))

    def register_event(self, name: str, text: str, *, scope: str = READ) -> Event:
        """Returns the event `<id>.<name>`; a call of it sends its payload to clients.

        Args:
            name: What follows the plugin's id and a dot.
            text: When it is sent, in a sentence.
            scope: What a client needs to receive it.

        Raises:
            PluginError: `register` has returned.
        """
        self._check_open()
        event = Event(f"{self.plugin}.{name}", scope, text)
        self._registered.events.append(event)
        return event

    def register_doctor_check(self, check: DoctorCheck) -> None:
        """Adds what `check` returns to `skerry doctor`, which asks the running gateway.

        Raises:
            PluginError: `register` has returned.
        """
        self._check_open()
        self._registered.checks.append(check)

    def register_http_route(
        self,
        path: str,
        run: Callable[[HttpRequest], Awaitable[HttpResponse]],
        *,
        methods: Sequence[str] = ("GET",),
        is_public: bool = False,
        max_body: int = MAX_BODY,
        seconds: float = ROUTE_SECONDS,
    ) -> None:
        """Answers HTTP requests for `/plugins/<id>/<path>`.

        Args:
            path: Names of letters, digits, `_` and `-`, with `/` between them; may be empty.
            run: Gets the request with its whole body.
            methods: HTTP methods that it answers.
            is_public: Answers without the token of the gateway, which a webhook cannot send. Then
                `run` decides who may ask.
            max_body: Bytes of a body; a longer one is refused with 413.
            seconds: After these the client gets 502.

        Raises:
            PluginError: the path is none, or `register` has returned.
        """
        self._check_open()
        if PATH.fullmatch(path) is None:
            message = f"{path!r} is not a valid path of a route, or belongs to the panels."
            raise PluginError(message, "Use letters, digits, _ and -, with / between names.")
        route = HttpRoute(self.plugin, path, run, tuple(methods), is_public, max_body, seconds)
        self._registered.routes.append(route)

    def register_page_panel(self, title: str, folder: Path) -> None:
        """Adds a panel to the page: the module `panel.js` in this folder.

        Its function `panel(element, gateway)` is called when somebody opens the panel; it fills the
        element and may return a function that is called when the panel closes. `gateway` has
        `request(method, params)` and `on(event, callback)`. The page's content security policy
        holds for it: only files of the folder are loaded, and no text becomes HTML.

        Raises:
            PluginError: the folder has no `panel.js`, or `register` has returned.
        """
        self._check_open()
        if not (folder / "panel.js").is_file():
            raise PluginError(f"{folder} has no panel.js.")
        self._registered.panels.append(Panel(self.plugin, title, folder))

    def register_cli_command(
        self,
        text: str,
        run: Callable[[CliCall], Awaitable[int]],
        *,
        add: Callable[[ArgumentParser], object] = lambda _: None,
    ) -> None:
        """Adds the command `skerry <id>`, which loads the plugin in its own process.

        Args:
            text: What it does, for its help.
            run: Returns the exit code.
            add: Adds its arguments.

        Raises:
            PluginError: there is one already, or `register` has returned.
        """
        self._check_open()
        if self._registered.cli is not None:
            raise PluginError("It has a command already; give that one subcommands.")
        self._registered.cli = CliCommand(text, add, run)

    register_cli = register_cli_command

    def database(self, steps: Sequence[str]) -> Database:
        """Returns the plugin's tables, in a database of its own in `data_dir`.

        Args:
            steps: SQL that builds the tables, then changes them; a step that was run once is never
                changed, new ones are appended.

        Raises:
            PluginError: there is no folder for data, or `register` has returned.
        """
        self._check_open()
        database = Database(self.data_dir, steps)
        self._registered.close.append(database.close)
        return database


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
