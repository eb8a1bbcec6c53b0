"""Types of the result of `register`, and of other results of a process."""

from typing import Any

from msgspec import Struct, field


class RemoteObject(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base class with camel-case keys, which refuses unknown keys."""


class RemoteTool(RemoteObject, frozen=True):
    """A tool for the model."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of its arguments."""
    optional: bool = False


class RemoteCommand(RemoteObject, frozen=True):
    """A chat command, `/name`."""

    name: str
    description: str
    accepts_arguments: bool = False
    owner_only: bool = True


class RemoteMethod(RemoteObject, frozen=True):
    """A gateway method, `<id>.<name>`."""

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    """JSON Schema of its parameters; empty accepts any."""
    scope: str = "operator.admin"


class RemoteHook(RemoteObject, frozen=True):
    """A hook with a handler in the process."""

    name: str
    priority: int = 0


class RemoteEvent(RemoteObject, frozen=True):
    """An event that the process may send."""

    name: str
    text: str
    scope: str = "operator.read"


class RemoteRoute(RemoteObject, frozen=True):
    """An HTTP route below `/plugins/<id>/`."""

    path: str
    methods: tuple[str, ...] = ("GET",)
    public: bool = False
    max_body: int = 1_048_576
    seconds: float = 30.0


class DeclaredParts(RemoteObject, frozen=True):
    """All parts of a process."""

    tools: tuple[RemoteTool, ...] = ()
    commands: tuple[RemoteCommand, ...] = ()
    methods: tuple[RemoteMethod, ...] = ()
    hooks: tuple[RemoteHook, ...] = ()
    sections: tuple[str, ...] = ()
    """Titles of sections of the system prompt."""
    services: tuple[str, ...] = ()
    events: tuple[RemoteEvent, ...] = ()
    routes: tuple[RemoteRoute, ...] = ()
    checks: bool = False
    """True when the process answers `check`, for `skerry doctor`."""
    memory: bool = False
    """True when the process claims the slot `memory`."""
    init: bool = False
    shutdown: bool = False


class ToolAnswer(RemoteObject, frozen=True):
    """The result of a tool."""

    text: str
    is_error: bool = False
    details: dict[str, Any] | None = None


class RouteAnswer(RemoteObject, frozen=True):
    """The response of a route; `body` is base64, `text` is not."""

    status: int = 200
    text: str = ""
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)


class DoctorFinding(RemoteObject, frozen=True):
    """A result of `check`."""

    name: str
    level: str
    text: str
    remedy: str = ""
