"""The tools of a gateway by name, and the tools offered to a run."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final

from skerry.config.root import Config
from skerry.model.caller import Asker, Caller
from skerry.policy.tool_policy import Situation, ToolPolicy, combined, policy
from skerry.ports.model import ModelInfo
from skerry.ports.tool import Tool, ToolSource, permitted, plugin_of, serving

MAX_CACHED: Final = 256
"""Limit on the cached answers."""
_Question = tuple[Caller, str, str, tuple[Tool, ...]]
"""Caller, provider and id of the model, and the tools of plugins."""
_Answer = tuple[list[Tool], list[Tool]]
"""The built-in tools offered, and the tools of plugins that the policy permits."""


class Toolbox(Mapping[str, Tool]):
    """The built-in tools, made at the first use, and the tools of loaded plugins and of sources."""

    def __init__(
        self,
        make: Callable[[], Iterable[Tool]] = tuple,
        make_sources: Callable[[], Mapping[str, ToolSource]] = dict,
    ) -> None:
        self._make = make
        self._make_sources = make_sources
        self.plugins: Mapping[str, Tool] = {}
        """The tools of plugins."""
        self._config: Config | None = None
        """Configuration that the `_answers` are valid for."""
        self._answers: dict[_Question, _Answer] = {}

    @cached_property
    def builtin(self) -> Mapping[str, Tool]:
        """Returns the built-in tools by name."""
        return {tool.spec.name: tool for tool in self._make()}

    @cached_property
    def sources(self) -> Mapping[str, ToolSource]:
        """Returns the sources of tools by the names of their features."""
        return self._make_sources()

    @property
    def added(self) -> Mapping[str, Tool]:
        """Returns the tools of plugins and of sources."""
        active = [source for source in self.sources.values() if source.is_active]
        present = [tools for source in active if (tools := source.tools)]
        if not present:
            return self.plugins
        return {name: tool for tools in (*present, self.plugins) for name, tool in tools.items()}

    async def prepare(self, caller: Caller) -> None:
        """Makes the tools of sources ready for a run of the caller."""
        for source in self.sources.values():
            if source.is_active:
                await source.prepare(caller)

    def forget(self) -> None:
        """Drops the cached answers."""
        self._answers.clear()

    def __getitem__(self, name: str) -> Tool:
        return self.builtin[name] if name in self.builtin else self.added[name]

    def __iter__(self) -> Iterator[str]:
        return chain(self.builtin, self.added)

    def __len__(self) -> int:
        return len(self.builtin) + len(self.added)

    def offered(self, caller: Caller, config: Config, model: ModelInfo) -> Sequence[Tool]:
        """Returns the tools that a run of the caller may use while `model` answers.

        For built-in tools the answer depends on the caller, the configuration and the model, and is
        cached until the configuration changes. For a plugin's tool that the policy permits, the
        tool itself decides each time. Each call of an offered tool is decided again.
        """
        if not model.supports_tools:
            return ()
        if config is not self._config:
            self._config, self._answers = config, {}
        question = caller, model.provider, model.id, tuple(self.added.values())
        answer = self._answers.get(question)
        if answer is None:
            if len(self._answers) >= MAX_CACHED:
                self._answers.clear()
            answer = self._answers[question] = self._answer(caller, config, model)
        builtin, of_plugins = answer
        return [*builtin, *serving(of_plugins, caller)] if of_plugins else builtin

    def _answer(self, caller: Caller, config: Config, model: ModelInfo) -> _Answer:
        layers = self.layers(caller, config, (model.provider, model.id))
        builtin = permitted(self.builtin.values(), caller, layers)
        return serving(builtin, caller), permitted(self.added.values(), caller, layers)

    def layers(
        self,
        caller: Caller,
        config: Config,
        model: tuple[str, str],
        joined: Iterable[tuple[str, ...]] = (),
    ) -> ToolPolicy:
        """Returns the layers of the configuration on the tools of a run of the caller.

        Args:
            caller: The caller and the chat.
            config: The configuration of the run.
            model: Provider and id of the model that answers now.
            joined: Keys of further senders whose messages entered the run.

        """
        tools = (*self.builtin.values(), *self.plugins.values())
        of_plugins = frozenset(tool.spec.name for tool in tools if plugin_of(tool))
        return tool_layers(config, caller, model, of_plugins, joined)


def tool_layers(
    config: Config,
    caller: Caller,
    model: tuple[str, str],
    plugin_tools: frozenset[str] = frozenset(),
    joined: Iterable[tuple[str, ...]] = (),
) -> ToolPolicy:
    """Returns the layers of the configuration on the tools of a run; see `Toolbox.layers`."""
    key, rules = caller.key, config.tool_rules(caller.key.agent, plugin_tools)
    is_sandboxed = config.is_sandboxed(key)
    # The caller is first; further senders, and callers of a parent run, can only remove tools.
    senders = dict.fromkeys((caller.sender, *joined))
    askers = (*(Asker(key, caller.channel, sender) for sender in senders), *caller.behalf)
    return combined(
        policy(
            rules,
            Situation.of(
                asker.key, asker.channel, asker.sender, model=model, is_sandboxed=is_sandboxed
            ),
        )
        for asker in askers
    )
