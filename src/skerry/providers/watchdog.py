"""A local model server that may go away while it is chosen."""

from collections.abc import Callable

from skerry.model.errors import ModelConnectionError
from skerry.ports.model import ModelProvider, ModelReply, ModelRequest, ReplyListener


class WatchedProvider:
    """Calls `lost` when the server cannot be reached, so that the next choice looks again."""

    def __init__(self, inner: ModelProvider, name: str, lost: Callable[[], None]) -> None:
        self._inner = inner
        self._name = name
        self._lost = lost

    @property
    def api(self) -> str:
        """Returns the wire format of the model behind."""
        return self._inner.api

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`."""
        try:
            return await self._inner.complete(request, listener)
        except ModelConnectionError as error:
            self._lost()
            raise type(error)(
                f"{error} Start {self._name} again; without it the next message goes to the next"
                " model that can be used."
            ) from error
