"""Lets a small model answer short prompts."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import ModelResolve, ModelResolveChange

MAX_CHARS = 40


async def choose(event: ModelResolve) -> ModelResolveChange | None:
    """Chooses another model of the configured provider for a short prompt."""
    if len(event.prompt) > MAX_CHARS:
        return None
    return ModelResolveChange(model_override="small-model")


def register(api: PluginApi) -> None:
    """Registers the handler."""
    api.hooks.before_model_resolve(choose)
