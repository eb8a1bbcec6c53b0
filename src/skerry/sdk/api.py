"""`PluginApi`: the object with which the `register(api)` of a plugin registers its parts."""

import copy
import logging
import re
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from skerry.sdk.hook_points import EveryPoint, HookPoints
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
"""Hooks that can change the prompt; they need `hooks.allowPromptInjection`."""
PLAIN_HOOKS: Final = frozenset({"gateway_start", "gateway_stop", "session_end", "session_start"})
"""Hooks without text of conversations; all others need `hooks.allowConversationAccess`."""
HOOKS: Final = tuple(HookPoints.__annotations__)
"""The names of all hooks."""
MAX_BODY: Final = 1_048_576
"""Default limit of the body of a request to a route, in bytes."""
ROUTE_SECONDS: Final = 30.0
"""Default time limit of a route."""
PATH: Final = re.compile(r"(?!panels(/|\Z))[A-Za-z0-9_-]+(/[A-Za-z0-9._-]+)*|")
"""Valid paths of routes. Paths below `panels` are reserved for panels of the page."""


class PluginApi(Provides):
    """API of the gateway for one plugin.

    The `register_...` methods, `on`, `hooks`, `database` and `claim_slot` work until `register`
    returns. `config`, `logger`, `clock`, `http`, `sockets`, `embeddings`, `transcripts` and
    `data_dir` work as long as the plugin runs.

    Args:
        plugin: Id of the plugin.
        config: `plugins.entries.<id>.config` of the configuration file, unchecked.
        data: Folder for files of the plugin; None for none.
        allow_conversation: True when the plugin may use hooks with text of conversations.
        allow_prompt: True when the plugin may change the prompt.
        host: Parts of the running gateway; None in a command or a test.

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
        """Fetches addresses under the network policy."""
        self.sockets: Final = PluginSockets(host.network, config)
        """Opens TCP and TLS connections to servers that the plugin's configuration names."""
        self.clock: Final = host.clock
        """Source of the time: `clock.now_ms()` returns milliseconds since 1970; a test sets it."""
        self.reach: Final = host.reach
        """Marks a named point, such as `tea.poured`, at which a test may kill the gateway."""
        self.embeddings: Final = host.embeddings
        """Embeds texts with the embedding models of agents."""
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
        """Registers the handler `call` for the hook of this name.

        `api.hooks.<name>(call)` does the same, and a type checker compares `call` with the hook.

        Handlers with a higher priority run first. `call` gets the payload of the hook, and returns
        None or the change that the reference describes. An async function runs in the event loop
        and must not block it; a plain function runs in a thread. `when` returns False for a payload
        that needs no call; it runs in the event loop for every message, so it must be cheap.

        Raises:
            PluginError: the hook is unknown, the configuration does not allow it, or `register`
                has returned.
        """
        self._check_open()
        if hook not in HOOKS:
            near = spelt_like(hook, HOOKS)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise PluginError(f"Unknown hook {hook!r}.{hint} Hooks: {', '.join(HOOKS)}.")
        switch = f"plugins.entries.{self.plugin}.hooks"
        if hook in PROMPT_HOOKS and not self._allow_prompt:
            raise PluginError(
                f"The plugin registers {hook}, which may change the prompt.",
                f"Allow it with {switch}.allowPromptInjection.",
            )
        if hook not in PLAIN_HOOKS and not self._allow_conversation:
            raise PluginError(
                f"The plugin registers {hook}, which may read conversations.",
                f"Allow it with {switch}.allowConversationAccess.",
            )
        self._registered.handlers.append((hook, Handler(self.plugin, call, priority, when)))

    @property
    def hooks(self) -> HookPoints:
        """Returns the hooks: `hooks.<name>(call)` registers a handler, as `on` does."""
        return cast("HookPoints", EveryPoint(self.on))

    @property
    def transcripts(self) -> Transcripts:
        """Returns the reader of the messages of all conversations.

        Raises:
            PluginError: the configuration does not allow it.
        """
        if not self._allow_conversation:
            switch = f"plugins.entries.{self.plugin}.hooks.allowConversationAccess"
            raise PluginError("The plugin reads transcripts.", f"Allow it with {switch}.")
        return self._transcripts

    @property
    def data_dir(self) -> Path:
        """Returns the folder for files of the plugin, mode 0700; creates it at the first use.

        Raises:
            PluginError: the folder cannot be created, or there is none here.
        """
        if self._data is None:
            raise PluginError("The plugin has no folder for data here.")
        try:
            make_private(self._data)
        except OSError as error:
            raise PluginError(f"{self._data} cannot be created: {error.strerror}.") from error
        return self._data

    state_dir = data_dir
    """`data_dir` under its name in OpenClaw."""

    def settings(self, model: type[P]) -> P:
        """Returns `plugins.entries.<id>.config` as a checked instance of a pydantic model.

        Raises:
            PluginError: the settings are invalid; the message has the path and fault of each key.
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
        """Appends the section `## <title>` to the system prompt of each run.

        `render` returns its text in Markdown; an empty text adds no section. It is called for each
        run and by `skerry prompt show`. A text that differs from run to run is expensive: providers
        cache the unchanged beginning of a request.

        Raises:
            PluginError: the configuration does not allow it, or `register` has returned.
        """

        async def section(draft: PromptDraft) -> PromptChange | None:
            text = (await render(draft)).strip()
            return PromptChange(append_system_context=f"## {title}\n\n{text}") if text else None

        self.hooks.before_prompt_build(section)
        self._registered.handlers[-1][1].runs_on_inspection = True

    def register_tool(self, tool: Tool, *, optional: bool = False) -> None:
        """Offers a tool to the model. `skerry.sdk.tools.FunctionTool` wraps a function.

        An `optional` tool is offered only where `tools.allow` or `tools.alsoAllow` of the agent
        names it. A call has 120 s.

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
        """Answers the chat command `/name` without a model.

        `run` has 30 s and returns the answer in Markdown; it raises `CommandError` for a wrong
        call. With `accepts_arguments` text may follow the name, as `call.arguments`.

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
        """Registers the gateway method `<id>.<name>`.

        Args:
            name: Second part of the name, after the plugin's id and a dot.
            params: Model that checks the parameters before `run` is called.
            run: Gets the checked parameters and the caller; returns any JSON value. It has 30 s.
            scope: Scope that the caller needs: `operator.read`, `operator.write` or
                `operator.admin`.

        Raises:
            PluginError: `register` has returned.
        """
        self._check_open()
        method = GatewayMethod(f"{self.plugin}.{name}", params, run, scope, self.plugin)
        self._registered.methods.append(method)

    def register_service(self, name: str, run: Service) -> None:
        """Runs the async function `run` from the start of the gateway until it stops.

        When `run` raises, it is started again after 1 s, then 2 s, up to a minute. When the gateway
        stops, it is cancelled and has 10 s to end.

        Raises:
            PluginError: `register` has returned.
        """
        self._check_open()
        self._registered.services.append((f"{self.plugin}.{name}", run))

    def register_init(self, call: Callable[[], object]) -> None:
        """Calls `call` before any part of the plugin is used, as a function `init` of its module.

        The plugin is not loaded when it fails, or needs more than 10 s.
        """
        self._check_open()
        self._registered.init = call

    def register_event(self, name: str, text: str, *, scope: str = READ) -> Event:
        """Registers and returns the event `<id>.<name>`: `event(payload)` sends it to clients.

        Args:
            name: Second part of the name, after the plugin's id and a dot.
            text: Sentence for the reference that describes the event.
            scope: Scope that a client needs to receive it.

        Raises:
            PluginError: `register` has returned.
        """
        self._check_open()
        event = Event(f"{self.plugin}.{name}", scope, text)
        self._registered.events.append(event)
        return event

    def register_doctor_check(self, check: DoctorCheck) -> None:
        """Adds the checks that `check` returns to `skerry doctor`; the gateway calls it, for 10 s.

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
            run: Gets the request with its whole body, and returns the response.
            methods: HTTP methods that the route answers.
            is_public: True to answer without the token of the gateway, which a webhook cannot send.
                Then `run` must authenticate the caller.
            max_body: Limit of the body, in bytes; a longer one is refused with 413.
            seconds: Time limit of `run`; a later response is replaced by 502.

        Raises:
            PluginError: the path is invalid, or `register` has returned.
        """
        self._check_open()
        if PATH.fullmatch(path) is None:
            remedy = "Use letters, digits, _ and -, with / between names; panels/ is reserved."
            raise PluginError(f"Invalid path of a route: {path!r}.", remedy)
        route = HttpRoute(self.plugin, path, run, tuple(methods), is_public, max_body, seconds)
        self._registered.routes.append(route)

    def register_page_panel(self, title: str, folder: Path) -> None:
        """Adds a panel to the page: the JavaScript module `panel.js` in `folder`.

        Its function `panel(element, gateway)` is called when the panel is opened. It fills the
        element, and may return a function that is called when the panel is closed. `gateway` has
        `request(method, params)` and `on(event, callback)`. The content security policy of the page
        applies: only files of the folder are loaded, and text cannot be parsed as HTML.

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
        """Adds the command `skerry <id>`, which loads the plugin in a process of its own.

        `text` is its help text, `run` returns the exit code, `add` adds arguments to the parser.

        Raises:
            PluginError: the plugin has a command already, or `register` has returned.
        """
        self._check_open()
        if self._registered.cli is not None:
            raise PluginError("The plugin has registered a command already; add subcommands to it.")
        self._registered.cli = CliCommand(text, add, run)

    register_cli = register_cli_command

    def database(self, steps: Sequence[str]) -> Database:
        """Returns the tables of the plugin, in a SQLite database of its own in `data_dir`.

        Args:
            steps: SQL scripts that create and change the tables, oldest first. Each is run once for
                an installation: never change a released step, append a new one.

        Raises:
            PluginError: there is no folder for data, or `register` has returned.
        """
        self._check_open()
        database = Database(self.data_dir, steps)
        self._registered.close.append(database.close)
        return database


def sealed(api: PluginApi) -> Registered:
    """Ends the registration and returns its results, for the loader and for tests of plugins."""
    api._sealed = True  # noqa: SLF001 - private for plugins, not for this module
    return api._registered  # noqa: SLF001 - as above
