"""HTTP routes that a plugin adds beneath `/plugins/<id>/`."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct, field


class HttpRequest(Struct, frozen=True):
    """One request, whose body was read."""

    method: str
    path: str
    """The path behind `/plugins/<id>/`."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By name in small letters, without the one that has the token."""
    body: bytes


class HttpResponse(Struct, frozen=True):
    """The answer."""

    body: bytes | str = b""
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpRoute(Struct, frozen=True):
    """One route, as `PluginApi.register_http_route` describes it."""

    plugin: str
    path: str
    run: Callable[[HttpRequest], Awaitable[HttpResponse]]
    methods: tuple[str, ...]
    is_public: bool
    """True when it is answered without the token of the gateway."""
    max_body: int
    """Bytes."""
    seconds: float
