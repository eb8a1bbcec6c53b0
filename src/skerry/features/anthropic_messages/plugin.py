"""Registers the wire format `anthropic-messages`, in the same way as a plugin."""

from skerry.features.anthropic_messages.provider import AnthropicProvider, headers, models_url
from skerry.sdk.api import PluginApi
from skerry.sdk.model_api import ModelApi


def register(api: PluginApi) -> None:
    """Registers the parts of the feature."""
    api.register_model_api(ModelApi("anthropic-messages", AnthropicProvider, headers, models_url))
