"""Registers the wire format `openai-completions`, in the same way as a plugin."""

from skerry.features.openai_completions.provider import CompatProvider
from skerry.sdk.api import PluginApi
from skerry.sdk.model_api import ModelApi


def register(api: PluginApi) -> None:
    """Registers the parts of the feature."""
    api.register_model_api(ModelApi("openai-completions", CompatProvider))
