"""Guards around the parts of a plugin, which limit the effects of slow or broken ones.

Each call runs as the handler of a hook does: in a task of its own, with a deadline. Failures are
counted under a label such as `tool weather`; after three in a row a part is not called for a
minute.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from pydantic import ValidationError

from skerry.commands.table import Command, CommandCall, CommandError
from skerry.hooks.runner import Handler, HandlerError, HandlerReport, Runner
from skerry.model.caller import Caller
from skerry.model.errors import PluginError, SkerryError, ToolError
from skerry.model.ids import AgentId
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.effect import ToolEffect
from skerry.policy.tool_policy import ToolPolicy
from skerry.ports.checks import Check, Level
from skerry.ports.tool import Assessment, Tool, ToolContext, assess, offered, reads_only, verb_of
from skerry.sdk.http import HttpRequest, HttpResponse, HttpRoute
from skerry.sdk.methods import GatewayMethod, MethodCall
from skerry.sdk.registrations import DoctorCheck

logger = logging.getLogger(__name__)

TOOL_SECONDS: Final = 120.0
GATE_SECONDS: Final = 5.0
COMMAND_SECONDS: Final = 30.0
METHOD_SECONDS: Final = 30.0
CHECK_SECONDS: Final = 10.0
MAX_TEXT: Final = 1_048_576
"""Limit of the text of a tool, in characters."""
MAX_JSON: Final = 1_048_576
"""Limit of the JSON of a method, in bytes."""

_EXPECTED: Final = (ToolError, ValidationError, CommandError, PluginError)
"""Exceptions that report an expected error; they are not counted as failures."""


@dataclass(frozen=True, slots=True)
class _RaisedOutcome:
    """An expected error that the plugin raised."""

    error: Exception


class GuardedCall:
    """Calls one function of a plugin, with a deadline of `seconds`."""

    def __init__(
        self,
        runner: Runner,
        plugin: str,
        label: str,
        call: Callable[[Any], Awaitable[Any]],
        seconds: float,
    ) -> None:
        self._runner = runner
        self._label = label
        self._seconds = seconds
        self._handler = Handler[Any, Any](plugin, partial(_call, call))

    async def call(self, payload: object, read: Callable[[object], Any]) -> Any:
        """Calls the function and returns its result, converted by `read`.

        Raises:
            HandlerError: the call failed, was late or returned an invalid value, or is suspended.
            SkerryError, ValidationError: an expected error of the plugin.
        """
        begun = self._runner.begin(self._label, self._handler, payload)
        outcome = await self._runner.end(begun, self._seconds, partial(_read, read))
        if isinstance(outcome, _RaisedOutcome):
            raise outcome.error
        return outcome

    def report(self) -> HandlerReport:
        """Returns the counts and state of the function."""
        return self._runner.report(self._label, self._handler)


async def _call(call: Callable[[Any], Awaitable[Any]], payload: object) -> object:
    try:
        return await call(payload)
    except _EXPECTED as error:
        return _RaisedOutcome(error)


def _read(read: Callable[[object], Any], value: object) -> object:
    return value if isinstance(value, _RaisedOutcome) else read(value)


class GuardedTool:
    """A tool of a plugin. Implements `ports.tool.Tool`."""

    def __init__(
        self,
        runner: Runner,
        plugin: str,
        tool: Tool,
        is_chosen: Callable[[AgentId, str], bool] = lambda *_: True,
    ) -> None:
        # A plugin may add to the prompt by hooks only, which the configuration must allow.
        self.spec: ToolSpec = replace(tool.spec, advice="")
        self.plugin = plugin
        self.reads_only = reads_only(tool)
        self.verb = verb_of(tool)
        self._tool = tool
        self._is_chosen = is_chosen

        async def run(call: tuple[dict[str, Any], ToolContext]) -> object:
            return await tool.run(*call)

        async def gate(call: tuple[dict[str, Any], ToolContext]) -> object:
            return await assess(tool, *call)

        self.guard = GuardedCall(runner, plugin, f"tool {self.spec.name}", run, TOOL_SECONDS)
        self.gate = GuardedCall(
            runner, plugin, f"gate of tool {self.spec.name}", gate, GATE_SECONDS
        )

    async def assess(self, arguments: dict[str, Any], context: ToolContext) -> Assessment:
        """Returns the assessment of a call by the plugin; a failure denies the call."""
        try:
            assessment: Assessment = await self.gate.call((arguments, context), _assessment)
        except HandlerError as error:
            return Assessment(ToolEffect.DENY, "gate-failed", f"its plugin failed: {error}")
        return assessment

    def is_offered(self, caller: Caller) -> bool:
        """Returns True when the plugin offers the tool to the caller; False when it fails."""
        if not self._is_chosen(caller.key.agent, self.spec.name):
            return False
        try:
            # The configuration was checked before.
            layers = ToolPolicy(frozenset({self.spec.name}))
            return bool(offered([self._tool], caller, layers))
        except Exception:
            logger.exception("the tool %s is not offered: its plugin failed", self.spec.name)
            return False

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the result; a failure of the plugin becomes an error result for the model."""
        try:
            result: ToolResult = await self.guard.call((arguments, context), _tool_result)
        except HandlerError as error:
            return ToolResult(f"Tool {self.spec.name} failed: {error}.", is_error=True)
        return result


def _assessment(value: object) -> Assessment:
    if not isinstance(value, Assessment) or not isinstance(value.effect, ToolEffect):
        raise HandlerError(f"it returned {type(value).__name__}, not an Assessment")
    return value


def _tool_result(value: object) -> ToolResult:
    if not isinstance(value, ToolResult) or not isinstance(value.text, str):
        raise HandlerError(f"it returned {type(value).__name__}, not a ToolResult")
    if len(value.text) > MAX_TEXT:
        raise HandlerError(f"it returned more than {MAX_TEXT} characters")
    return value


def guarded_command(runner: Runner, command: Command) -> tuple[Command, GuardedCall]:
    """Returns the command with a guarded function, and the guard."""
    guard = GuardedCall(
        runner, command.plugin, f"command /{command.name}", command.run, COMMAND_SECONDS
    )

    async def run(call: CommandCall) -> str:
        try:
            answer: str = await guard.call(call, _text)
        except HandlerError as error:
            raise CommandError(f"/{command.name} failed: {error}.") from error
        return answer

    return replace(command, run=run), guard


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise HandlerError(f"it returned {type(value).__name__}, not a text")
    return value


def guarded_method(runner: Runner, method: GatewayMethod) -> tuple[GatewayMethod, GuardedCall]:
    """Returns the method with a guarded function, whose result is plain JSON, and the guard."""

    async def run_method(arguments: tuple[Any, MethodCall]) -> object:
        return await method.run(*arguments)

    guard = GuardedCall(runner, method.plugin, f"method {method.name}", run_method, METHOD_SECONDS)

    async def run(params: object, call: MethodCall) -> object:
        try:
            return await guard.call((params, call), _json)
        except HandlerError as error:
            raise PluginError(
                f"{method.name} failed: {_reason(error)}.",
                "`skerry plugins list` shows the reason.",
            ) from error
        except SkerryError:
            raise
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc'])) or 'at root'}: {fault['msg']}"
                for fault in error.errors(include_url=False, include_input=False)
            )
            raise PluginError(f"{method.name} received invalid parameters: {faults}") from error

    return replace(method, run=run), guard


def _reason(error: HandlerError) -> str:
    """Returns the reason of a failed call for the caller; of an exception only its type."""
    cause = error.__cause__
    if cause is None or isinstance(cause, HandlerError):
        return str(error)
    return f"it raised {type(cause).__name__}"


def _json(value: object) -> object:
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        raise HandlerError(f"it returned a value that is not JSON: {error}") from error
    if len(encoded) > MAX_JSON:
        raise HandlerError(f"it returned more than {MAX_JSON} bytes")
    return msgspec.json.decode(encoded)


async def guarded_check(runner: Runner, plugin: str, check: DoctorCheck) -> list[Check]:
    """Returns the results of a plugin's check; a warning when it fails."""
    guard = GuardedCall(runner, plugin, "doctor check", lambda _: check(), CHECK_SECONDS)
    try:
        checks: list[Check] = await guard.call(None, _checks)
    except (HandlerError, *_EXPECTED) as error:
        message = f"its check failed: {error}."
        return [Check(f"plugin {plugin}", Level.WARNING, message, "skerry plugins list")]
    return checks


def _checks(value: object) -> list[Check]:
    values = list(value) if isinstance(value, Iterable) else [value]
    checks = [finding for finding in values if isinstance(finding, Check)]
    if len(checks) < len(values):
        raise HandlerError("it returned something that is not a Check")
    return checks


def guarded_route(runner: Runner, route: HttpRoute) -> tuple[HttpRoute, GuardedCall]:
    """Returns the route with a guarded function, and the guard.

    A failed or late response becomes 502; the log has the reason.
    """
    label = f"route {route.path or '/'}"
    guard = GuardedCall(runner, route.plugin, label, route.run, route.seconds)

    async def run(request: HttpRequest) -> HttpResponse:
        try:
            response: HttpResponse = await guard.call(request, _response)
        except HandlerError as error:
            return HttpResponse(f"{label} failed: {_reason(error)}.\n", 502)
        except _EXPECTED as error:
            return HttpResponse(f"{error}\n", 400)
        return response

    return replace(route, run=run), guard


def _response(value: object) -> HttpResponse:
    if not isinstance(value, HttpResponse):
        raise HandlerError(f"it returned {type(value).__name__}, not an HttpResponse")
    return value
