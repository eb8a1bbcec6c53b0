"""`PluginHost`: the parts of the gateway behind a `PluginApi`."""

from collections.abc import Callable

from msgspec import Struct, field

from skerry.infra.clock import Clock, SystemClock
from skerry.policy.network import NetworkRules
from skerry.sdk.embedding import Embeddings, NoEmbeddings
from skerry.sdk.fetch import LiveRules
from skerry.sdk.transcripts import Transcripts


def _reach_nothing(_: str) -> None:
    """Ignores a fault point, outside of tests."""


class PluginHost(Struct, frozen=True):
    """Parts of a gateway. The defaults are those where no gateway runs."""

    clock: Clock = field(default_factory=SystemClock)
    transcripts: Transcripts = field(default_factory=Transcripts)
    network: LiveRules = NetworkRules
    """Returns the present network policy for addresses that a plugin fetches."""
    reach: Callable[[str], None] = _reach_nothing
    """Called with the name of each fault point."""
    embeddings: Embeddings = field(default_factory=NoEmbeddings)
    """The embedding models of agents."""
