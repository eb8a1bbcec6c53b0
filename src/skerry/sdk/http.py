"""HTTP routes of plugins, below `/plugins/<id>/`."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct, field


class HttpRequest(Struct, frozen=True):
    """One HTTP request with its whole body."""

    method: str
    path: str
    """Path after `/plugins/<id>/`."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Headers by their names in lower case, without the header that has the gateway's token."""
    body: bytes


class HttpResponse(Struct, frozen=True):
    """The response of a route; text is encoded as UTF-8."""

    body: bytes | str = b""
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpRoute(Struct, frozen=True):
    """One route; `PluginApi.register_http_route` describes the fields."""

    plugin: str
    path: str
    run: Callable[[HttpRequest], Awaitable[HttpResponse]]
    methods: tuple[str, ...]
    is_public: bool
    """True to answer without the token of the gateway."""
    max_body: int
    """Limit of the body, in bytes."""
    seconds: float
