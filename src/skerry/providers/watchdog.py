"""Provider of a local model server, which may stop while it is in use."""

from collections.abc import Callable

from skerry.model.errors import ModelConnectionError
from skerry.ports.model import ModelProvider, ModelReply, ModelRequest, ReplyListener


class WatchedProvider:
    """Calls `on_unreachable` when the server does not answer, so that servers are probed again."""

    def __init__(self, inner: ModelProvider, name: str, on_unreachable: Callable[[], None]) -> None:
        self._inner = inner
        self._name = name
        self._on_unreachable = on_unreachable

    @property
    def api(self) -> str:
        """Returns the wire format of the inner provider."""
        return self._inner.api

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`."""
        try:
            return await self._inner.complete(request, listener)
        except ModelConnectionError as error:
            self._on_unreachable()
            raise type(error)(
                f"{error} Start {self._name} again; without it the next message goes to the next"
                " model that can be used."
            ) from error
