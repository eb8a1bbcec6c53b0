"""Embedding models that a plugin provides for the memory."""

from collections.abc import Sequence
from typing import Protocol


class EmbeddingProvider(Protocol):
    """One model. A call has 60 s, and gets at most 32 texts."""

    @property
    def model(self) -> str:
        """Returns the name of the model; vectors of two names are never compared."""
        ...

    @property
    def local(self) -> bool:
        """Returns whether it runs on this machine, where nobody else reads the texts."""
        ...

    async def embed(self, texts: Sequence[str], *, is_query: bool) -> Sequence[Sequence[float]]:
        """Returns a vector for each text, in their order, always of the same length.

        Raises:
            PluginError: it cannot answer now; words alone are compared meanwhile.
        """
        ...
