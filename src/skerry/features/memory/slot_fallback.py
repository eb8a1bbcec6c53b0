"""The built-in memory behind that of a plugin, where `plugins.slots.memoryFallback` is on."""

from collections.abc import Callable

from skerry.config.root import Config
from skerry.features.memory.claimed import ClaimedMemories
from skerry.features.memory.slot import FallbackMemoryManager
from skerry.infra.clock import Clock
from skerry.model.ids import AgentId
from skerry.ports.memory import Memories, MemoryBackend


class FallbackMemories:
    """The memories of all agents: the plugin's, then the built-in one. Implements `Memories`.

    Each answer that is not the plugin's says so, with the reason.
    """

    def __init__(
        self, config: Callable[[], Config], claimed: ClaimedMemories, behind: Memories, clock: Clock
    ) -> None:
        self._config = config
        self._claimed = claimed
        self._behind = behind
        self._clock = clock
        self._made: dict[tuple[AgentId, str], FallbackMemoryManager] = {}

    def of(self, agent: AgentId) -> MemoryBackend:
        """Returns the agent's memory."""
        key = agent, self._config().plugins.slots.memory
        made = self._made.get(key)
        if made is None:
            first, behind = self._claimed.of(agent), self._behind.of(agent)
            chain: list[MemoryBackend] = [first] if behind is None else [first, behind]
            made = self._made[key] = FallbackMemoryManager(chain, self._clock)
        return made
