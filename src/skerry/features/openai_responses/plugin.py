"""Registers the wire format `openai-responses`, in the same way as a plugin."""

from skerry.features.openai_responses.provider import ResponsesProvider
from skerry.sdk.api import PluginApi
from skerry.sdk.model_api import ModelApi


def register(api: PluginApi) -> None:
    """Registers the parts of the feature."""
    api.register_model_api(ModelApi("openai-responses", ResponsesProvider))
