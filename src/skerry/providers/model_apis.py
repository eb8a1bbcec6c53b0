"""Wire formats of model APIs by name; features and plugins register them.

A wire format of a feature is imported when a configured model first needs it.
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
"""Wire format of a server without `api` in the configuration."""


def bearer(endpoint: Endpoint) -> dict[str, str]:
    """Returns the header `Authorization: Bearer` with the endpoint's key; empty without a key."""
    return {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}


def models_address(base_url: str) -> str:
    """Returns `<base>/models`, where most servers list their models."""
    return f"{base_url.rstrip('/')}/models"


class ModelApi(Struct, frozen=True):
    """A wire format of model APIs: its provider, and the request for a list of models."""

    name: str
    """Value of `api` in `models.providers` that selects it; a plugin's is `<id>.<name>`."""
    open: Callable[[HttpClient, Endpoint], ModelProvider]
    """Returns a provider for an endpoint; called once for each endpoint."""
    headers: Callable[[Endpoint], dict[str, str]] = bearer
    """Returns the headers of a request for the list of models, such as the key."""
    models_url: Callable[[str], str] = models_address
    """Returns the address of the list of models, from the base URL."""

    @property
    def sends_bearer(self) -> bool:
        """Returns True when a key is sent in the same header as an access token."""
        return self.headers is bearer


class ModelApis:
    """The available wire formats.

    Args:
        builtin: Loaders of the formats of features, by name.

    """

    def __init__(self, builtin: Mapping[str, Callable[[], ModelApi]]) -> None:
        self._builtin = builtin
        self._added: dict[str, ModelApi] = {}

    def add(self, api: ModelApi) -> None:
        """Adds the wire format of a plugin."""
        self._added[api.name] = api

    def remove(self, name: str) -> None:
        """Removes the wire format of a plugin."""
        self._added.pop(name, None)

    def get(self, name: str) -> ModelApi:
        """Returns the wire format of this name.

        Raises:
            ModelUnavailableError: no feature or plugin has registered it.
        """
        load = self._builtin.get(name)
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
            ModelUnavailableError: its wire format is not registered, or the plugin failed.
        """
        api = self.get(endpoint.api)
        if api.name in self._builtin:
            return api.open(http, endpoint)
        try:
            return api.open(http, endpoint)
        except Exception as error:
            logger.exception("the API %s of a plugin cannot be used", api.name)
            raise ModelUnavailableError(
                f"The plugin of the API {api.name!r} failed: {type(error).__name__}.",
                "The log of the gateway has the reason.",
            ) from error
