"""Parts of the gateway that every plugin gets with its `PluginApi`."""

from collections.abc import Callable

from msgspec import Struct, field

from skerry.infra.clock import Clock, SystemClock
from skerry.policy.network import NetworkRules
from skerry.sdk.embedding import Embeddings, NoEmbeddings
from skerry.sdk.fetch import LiveRules
from skerry.sdk.transcripts import Transcripts


def _reach_nothing(_: str) -> None:
    """Does nothing at a fault point: no test runs."""


class PluginHost(Struct, frozen=True):
    """Parts of a running gateway. The defaults are those where none runs."""

    clock: Clock = field(default_factory=SystemClock)
    transcripts: Transcripts = field(default_factory=Transcripts)
    network: LiveRules = NetworkRules
    """Returns the present rules for addresses that a plugin fetches."""
    reach: Callable[[str], None] = _reach_nothing
    """Called at each named fault point."""
    embeddings: Embeddings = field(default_factory=NoEmbeddings)
    """The embedding models of agents."""
