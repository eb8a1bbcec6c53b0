"""Let a small model answer small talk."""

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import ModelResolve, ModelResolveChange

SMALL = 40


async def choose(event: ModelResolve) -> ModelResolveChange | None:
    """Name another model of the configured provider for a short prompt."""
    if len(event.prompt) > SMALL:
        return None
    return ModelResolveChange(model_override="small-model")


def register(api: PluginApi) -> None:
    """Take part."""
    api.hooks.before_model_resolve(choose)
