"""The tools of a gateway by name, and those that a run is offered."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final

from skerry.config.root import Config
from skerry.model.caller import Asker, Caller
from skerry.policy.tool_policy import Situation, ToolPolicy, policy, together
from skerry.ports.model import ModelInfo
from skerry.ports.tool import Tool, permitted, plugin_of, serving

REMEMBERED: Final = 256
"""Answers that are remembered at most."""
_Question = tuple[Caller, str, str, tuple[Tool, ...]]
"""Caller, provider and id of the model, and the tools of plugins."""
_Answer = tuple[list[Tool], list[Tool]]
"""Our own tools that are offered, and those of plugins that the policy permits."""


class Toolbox(Mapping[str, Tool]):
    """Our own tools, made when somebody first looks, and those of plugins, which come and go."""

    def __init__(self, make: Callable[[], Iterable[Tool]] = tuple) -> None:
        self._make = make
        self.plugins: Mapping[str, Tool] = {}
        """The tools of plugins."""
        self._config: Config | None = None
        """Configuration for which `_answers` hold."""
        self._answers: dict[_Question, _Answer] = {}

    @cached_property
    def own(self) -> Mapping[str, Tool]:
        """Returns our own tools."""
        return {tool.spec.name: tool for tool in self._make()}

    def forget(self) -> None:
        """Drops the answers that are remembered."""
        self._answers.clear()

    def __getitem__(self, name: str) -> Tool:
        return self.own[name] if name in self.own else self.plugins[name]

    def __iter__(self) -> Iterator[str]:
        return chain(self.own, self.plugins)

    def __len__(self) -> int:
        return len(self.own) + len(self.plugins)

    def offered(self, caller: Caller, config: Config, model: ModelInfo) -> Sequence[Tool]:
        """Returns the tools that a run of the caller may use while `model` answers.

        For our own it follows from the caller, the configuration and the model, so it is remembered
        until the configuration changes. The tools of plugins may look at anything: those that the
        policy permits are asked each time. Whatever is offered, each call is decided again when it
        is made.
        """
        if not model.supports_tools:
            return ()
        if config is not self._config:
            self._config, self._answers = config, {}
        question = caller, model.provider, model.id, tuple(self.plugins.values())
        answer = self._answers.get(question)
        if answer is None:
            if len(self._answers) >= REMEMBERED:
                self._answers.clear()
            answer = self._answers[question] = self._answer(caller, config, model)
        own, of_plugins = answer
        return [*own, *serving(of_plugins, caller)] if of_plugins else own

    def _answer(self, caller: Caller, config: Config, model: ModelInfo) -> _Answer:
        layers = self.layers(caller, config, (model.provider, model.id))
        own = permitted(self.own.values(), caller, layers)
        return serving(own, caller), permitted(self.plugins.values(), caller, layers)

    def layers(
        self,
        caller: Caller,
        config: Config,
        model: tuple[str, str],
        joined: Iterable[tuple[str, ...]] = (),
    ) -> ToolPolicy:
        """Returns the layers of the configuration on the tools of a run of the caller.

        Args:
            caller: Who asks, and where.
            config: The configuration of the run.
            model: Provider and id of the model that answers now.
            joined: Keys of further senders whose messages entered the run.

        """
        tools = (*self.own.values(), *self.plugins.values())
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
    # The caller's own are the first; further senders, and who asked elsewhere, only take away.
    here = dict.fromkeys((caller.sender, *joined))
    askers = (*(Asker(key, caller.channel, sender) for sender in here), *caller.behalf)
    return together(
        policy(
            rules,
            Situation.of(
                asker.key, asker.channel, asker.sender, model=model, is_sandboxed=is_sandboxed
            ),
        )
        for asker in askers
    )
