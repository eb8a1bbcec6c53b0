"""Names of models: references, aliases, and the permission to use each (pure)."""

from collections.abc import Mapping
from typing import Final

from skerry.auth.profiles import split_reference
from skerry.config.agents import AgentsConfig
from skerry.config.models import Mode, ModelsConfig
from skerry.infra.spelling import spelt_like
from skerry.model.errors import ModelUnavailableError
from skerry.providers.builtin_providers import known_provider

FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "opus": (
        "anthropic/claude-opus-5-5",
        "anthropic/claude-opus-5",
        "anthropic/claude-opus-4-8",
        "anthropic/claude-opus-4-6",
    ),
    "sonnet": (
        "anthropic/claude-sonnet-5-5",
        "anthropic/claude-sonnet-5",
        "anthropic/claude-sonnet-4-6",
        "anthropic/claude-sonnet-4-5",
    ),
    "gpt": ("openai/gpt-6.1-sol", "openai/gpt-6-sol", "openai/gpt-5.4", "openai/gpt-5.2"),
    "gpt-mini": ("openai/gpt-6-luna", "openai/gpt-5.4-mini", "openai/gpt-5-mini"),
    "gemini": (
        "google/gemini-4-argon",
        "google/gemini-3.1-pro-preview",
        "google/gemini-3-pro-preview",
    ),
    "gemini-flash": (
        "google/gemini-3.8-flash",
        "google/gemini-3.5-flash",
        "google/gemini-3-flash-preview",
    ),
}
"""Aliases without configuration: each means the first of its models that is in
`agents.defaults.models` without an alias of its own."""


class ModelNames:
    """The aliases and the allowed models of one configuration."""

    def __init__(self, agents: AgentsConfig, models: ModelsConfig | None = None) -> None:
        listed = agents.defaults.models
        self.aliases: dict[str, str] = {}
        """Alias, in lower case, to reference."""
        for alias, refs in FAMILIES.items():
            present = next((ref for ref in refs if ref in listed and not listed[ref].alias), None)
            if present is not None:
                self.aliases[alias] = present
        for ref, entry in listed.items():
            if entry.alias:
                self.aliases[entry.alias.lower()] = ref
        chosen = [agents.defaults.model, *(agent.model for agent in agents.list if agent.model)]
        named = [
            name
            for choice in chosen
            for name in (choice.primary, *(choice.fallbacks or ()))
            if name
        ]
        primaries = {self.reference(split_reference(name)[0]) for name in named}
        self._named = frozenset({*listed, *primaries})
        self._allowed = self._named if listed else None
        self._listed = {
            name: tuple(model.id for model in provider.models)
            for name, provider in (models.providers if models else {}).items()
            if provider.models and _is_whole(models, name)
        }
        """Models by provider, for providers whose models only the file lists."""

    def reference(self, name: str) -> str:
        """Returns the reference of an alias; any other name is returned unchanged."""
        return self.aliases.get(name.lower(), name)

    def check(self, ref: str) -> None:
        """Checks that the model may be used.

        Raises:
            ModelUnavailableError: `agents.defaults.models` has entries but none for it; or its
                provider lists other models, and the file does not name it elsewhere.
        """
        if ref in self._named:
            return
        if self._allowed is None:
            provider, _, model = ref.partition("/")
            models = self._listed.get(provider, ())
            if not models or not model or model in models:
                return
            raise ModelUnavailableError(
                f"{provider} does not list a model {model!r}.",
                f"It lists {', '.join(models)}. Others go into models.providers.{provider}.models.",
            )
        near = spelt_like(ref, self._allowed)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ModelUnavailableError(
            f"The model {ref!r} is not allowed.{hint}",
            f"Allowed: {', '.join(sorted(self._allowed))}. Others go into agents.defaults.models.",
        )


def _is_whole(models: ModelsConfig | None, provider: str) -> bool:
    """Returns True when the file is the only source of the models of a provider."""
    return models is not None and (models.mode is Mode.REPLACE or known_provider(provider) is None)
