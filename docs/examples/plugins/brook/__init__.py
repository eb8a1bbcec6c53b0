"""A brook: teaches the gateway a wire format of model APIs that it does not know."""

from skerry.sdk.api import PluginApi
from skerry.sdk.model_api import ModelApi

from .lines import BrookProvider


def register(api: PluginApi) -> None:
    """Registers the format; `api: "brook.lines"` of a provider selects it."""
    api.register_model_api(ModelApi("brook.lines", BrookProvider))
