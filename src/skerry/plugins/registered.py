"""Checks of a plugin's registrations when it is loaded, so that no turn fails later."""

import inspect
import re
from collections.abc import Collection
from typing import Final

import msgspec
from pydantic import BaseModel

from skerry.model.errors import PluginError
from skerry.model.tool import ToolSpec
from skerry.ports.tool import Tool
from skerry.sdk.methods import GatewayMethod
from skerry.sdk.registrations import Registered

_SCOPES: Final = ("operator.admin", "operator.read", "operator.write")
_TOOL_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_METHOD_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[A-Za-z0-9_-]{1,64}){1,4}")


def check(registered: Registered, tools: Collection[str], methods: Collection[str]) -> None:
    """Checks all registrations; `tools` and `methods` are the names in use.

    Raises:
        PluginError: a name is invalid or in use, or a part has a wrong type.
    """
    for hook, handler in registered.handlers:
        if not (_is(int, handler.priority) and callable(handler.call)):
            raise PluginError(
                f"Its handler of {hook} is not a function, or its priority is not a number."
            )
    for command in registered.commands:
        if not (_is(str, command.name, command.description) and callable(command.run)):
            raise PluginError(
                f"{command.name!r} is not a command: it needs a name, a function and a description."
            )
    for name, run in registered.services:
        if not (_is(str, name) and inspect.iscoroutinefunction(run)):
            raise PluginError(f"The service {name!r} is no async function.")
    _check_served(registered)
    _check_free("tool", [_tool_name(tool) for tool in registered.tools], tools)
    _check_free("method", [_method_name(method) for method in registered.methods], methods)


def _check_served(registered: Registered) -> None:
    """Checks events, routes, wire formats and checks of the doctor."""
    for event in registered.events:
        if _METHOD_NAME.fullmatch(event.name) is None or event.need.scope not in _SCOPES:
            raise PluginError(f"The event {event.name!r} has no valid name or scope.")
    for check_ in registered.checks:
        if not inspect.iscoroutinefunction(check_):
            raise PluginError("A check of skerry doctor is no async function.")
    for route in registered.routes:
        if not (inspect.iscoroutinefunction(route.run) and route.methods and route.max_body >= 0):
            raise PluginError(f"The route {route.path!r} has no async function, or no method.")
    _check_free("route", [route.path for route in registered.routes], ())
    _check_free("model API", [api.name for api in registered.model_apis], ())
    _check_free("event", [event.name for event in registered.events], ())


def _is(kind: type, *values: object) -> bool:
    return all(isinstance(value, kind) for value in values)


def _check_free(kind: str, names: list[str], reserved: Collection[str]) -> None:
    for number, name in enumerate(names):
        if name in reserved or name in names[:number]:
            raise PluginError(f"A {kind} {name} exists already.", "Give it another name.")


def _tool_name(tool: Tool) -> str:
    """Returns the name of a valid tool; a description that is not JSON would break all requests."""
    try:
        spec = msgspec.json.decode(msgspec.json.encode(tool.spec), type=ToolSpec)
        runs = callable(tool.run)
    except Exception as error:
        raise PluginError(
            f"{tool!r} is not a tool: {error}.", "Register a FunctionTool."
        ) from error
    if not runs or _TOOL_NAME.fullmatch(spec.name) is None:
        raise PluginError(f"{spec.name!r} is not a valid tool name, or it has no function `run`.")
    return spec.name


def _method_name(method: GatewayMethod) -> str:
    if _METHOD_NAME.fullmatch(method.name) is None:
        raise PluginError(f"{method.name!r} is not a valid method name.")
    if method.scope not in _SCOPES:
        raise PluginError(f"{method.name} needs one of the scopes {', '.join(_SCOPES)}.")
    if not (_is(type, method.params) and issubclass(method.params, BaseModel)):
        raise PluginError(f"{method.name} needs a pydantic model of its parameters.")
    if not callable(method.run):
        raise PluginError(f"{method.name} has no function.")
    return method.name
