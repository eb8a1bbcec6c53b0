"""Registers the wire format `google-generative-ai`, as a plugin registers one."""

from skerry.features.google_generative_ai.provider import GoogleProvider, headers, models_url
from skerry.sdk.api import PluginApi
from skerry.sdk.model_api import ModelApi


def register(api: PluginApi) -> None:
    """Registers what the feature consists of."""
    api.register_model_api(ModelApi("google-generative-ai", GoogleProvider, headers, models_url))
