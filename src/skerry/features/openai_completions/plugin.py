"""Registers the wire format `openai-completions`, as a plugin registers one."""

from skerry.features.openai_completions.provider import CompatProvider
from skerry.sdk.api import PluginApi
from skerry.sdk.model_api import ModelApi


def register(api: PluginApi) -> None:
    """Registers what the feature consists of."""
    api.register_model_api(ModelApi("openai-completions", CompatProvider))
