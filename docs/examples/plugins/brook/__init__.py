"""A brook: registers a wire format of model APIs."""

from skerry.sdk.api import PluginApi
from skerry.sdk.model_api import ModelApi

from .lines import BrookProvider


def register(api: PluginApi) -> None:
    """Registers the format; `api: "brook.lines"` of a provider selects it."""
    api.register_model_api(ModelApi("brook.lines", BrookProvider))
