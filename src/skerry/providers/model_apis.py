"""The APIs of models by the names of their wire formats; each is registered by a feature or plugin.

What a feature registers is imported when a configured model first needs it.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from skerry.infra.http import HttpClient
from skerry.model.errors import ModelUnavailableError
from skerry.ports.model import ModelProvider
from skerry.providers.streaming_call import Endpoint

logger = logging.getLogger(__name__)

USUAL: Final = "openai-completions"
"""Wire format of a server for which nobody names one."""


def bearer(endpoint: Endpoint) -> dict[str, str]:
    """Returns the header `Authorization: Bearer` with the key of an endpoint, if it has one."""
    return {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}


def beside(base_url: str) -> str:
    """Returns `<base>/models`, where most servers list their models."""
    return f"{base_url.rstrip('/')}/models"


class ModelApi(Struct, frozen=True):
    """A wire format of model APIs: what calls its models, and how its servers list them."""

    name: str
    """Value of `api` in `models.providers` that selects it; that of a plugin is `<id>.<name>`."""
    open: Callable[[HttpClient, Endpoint], ModelProvider]
    """Opens the provider of an endpoint; called once for each endpoint."""
    headers: Callable[[Endpoint], dict[str, str]] = bearer
    """Returns the headers of a request for the list of models: the key, and what else is needed."""
    models_url: Callable[[str], str] = beside
    """Returns the address of the list of models, from the base URL."""

    @property
    def sends_bearer(self) -> bool:
        """Returns whether a key is sent as an access token is."""
        return self.headers is bearer


class ModelApis:
    """The APIs that can be used.

    Args:
        own: Those of features, each imported when it is called for.

    """

    def __init__(self, own: Mapping[str, Callable[[], ModelApi]]) -> None:
        self._own = own
        self._added: dict[str, ModelApi] = {}

    def add(self, api: ModelApi) -> None:
        """Adds the API of a plugin."""
        self._added[api.name] = api

    def remove(self, name: str) -> None:
        """Removes the API of a plugin."""
        self._added.pop(name, None)

    def get(self, name: str) -> ModelApi:
        """Returns the API of a wire format.

        Raises:
            ModelUnavailableError: no plugin has registered it.
        """
        load = self._own.get(name)
        api = load() if load is not None else self._added.get(name)
        if api is None:
            plugin = name.partition(".")[0]
            raise ModelUnavailableError(
                f"The API {name!r} that models.providers names is not registered.",
                f"Load the plugin {plugin!r} that registers it: skerry plugins list.",
            )
        return api

    def open(self, http: HttpClient, endpoint: Endpoint) -> ModelProvider:
        """Opens the provider of an endpoint.

        Raises:
            ModelUnavailableError: its API is not registered, or its plugin failed.
        """
        api = self.get(endpoint.api)
        if api.name in self._own:
            return api.open(http, endpoint)
        try:
            return api.open(http, endpoint)
        except Exception as error:
            logger.exception("the API %s of a plugin cannot be used", api.name)
            raise ModelUnavailableError(
                f"The plugin of the API {api.name!r} failed: {type(error).__name__}.",
                "The log of the gateway has the reason.",
            ) from error
