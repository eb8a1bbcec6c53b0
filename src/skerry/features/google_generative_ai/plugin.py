"""Registers the wire format `google-generative-ai`, in the same way as a plugin."""

from skerry.features.google_generative_ai.provider import GoogleProvider, headers, models_url
from skerry.sdk.api import PluginApi
from skerry.sdk.model_api import ModelApi


def register(api: PluginApi) -> None:
    """Registers the parts of the feature."""
    api.register_model_api(ModelApi("google-generative-ai", GoogleProvider, headers, models_url))
