"""The built-in memory as fallback of a plugin's, if `plugins.slots.memoryFallback` is on."""

from collections.abc import Callable

from skerry.config.root import Config
from skerry.features.memory.claimed import ClaimedMemories
from skerry.features.memory.slot import FallbackMemoryManager
from skerry.infra.clock import Clock
from skerry.model.ids import AgentId
from skerry.ports.memory import Memories, MemoryBackend


class FallbackMemories:
    """The memories of all agents: the plugin's, then the built-in one. Implements `Memories`.

    An answer of the built-in memory has the reason of the fallback.
    """

    def __init__(
        self, config: Callable[[], Config], claimed: ClaimedMemories, behind: Memories, clock: Clock
    ) -> None:
        self._config = config
        self._claimed = claimed
        self._behind = behind
        self._clock = clock
        self._managers: dict[tuple[AgentId, str], FallbackMemoryManager] = {}

    def of(self, agent: AgentId) -> MemoryBackend:
        """Returns the agent's memory."""
        key = agent, self._config().plugins.slots.memory
        manager = self._managers.get(key)
        if manager is None:
            first, behind = self._claimed.of(agent), self._behind.of(agent)
            chain: list[MemoryBackend] = [first] if behind is None else [first, behind]
            manager = self._managers[key] = FallbackMemoryManager(chain, self._clock)
        return manager
