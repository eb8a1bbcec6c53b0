"""Lets a person choose the model while the gateway runs. Implements `ports.model.Setup`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skerry.app.settings import Settings
from skerry.config.models import ProviderConfig
from skerry.config.redact import JSON
from skerry.model.errors import ConfigError
from skerry.ports.model import Models, ModelSetup, ModelStatus
from skerry.providers.known import KnownProvider, known_provider

PRIMARY: Final = "agents.defaults.model.primary"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Writes the choice into `skerry.json`; the next run uses it."""

    settings: Settings
    models: Models
    environ: Mapping[str, str]

    async def configure_model(self, setup: ModelSetup) -> ModelStatus:
        """Write the choice and use it; an empty choice lets the order of choice decide again."""
        configured = self.settings.config.models.providers.get(setup.provider)
        await self.settings.change(changes(setup, configured, self.environ))
        return await self.models.status()


def changes(
    setup: ModelSetup, configured: ProviderConfig | None, environ: Mapping[str, str]
) -> dict[str, JSON]:
    """Return the values of the file that the choice means.

    A key that is kept goes only to the address that it was entered for: with a new address the old
    key is removed.

    Raises:
        ConfigError: it names no provider that is known, no model where one is needed, or no key
            for a provider that asks for one.
    """
    if not setup.provider:
        if setup.api_key or setup.base_url or setup.model:
            raise _unclear("A key, an address or a model needs the name of its provider.")
        return {PRIMARY: None}
    known = known_provider(setup.provider)
    present = str(configured.base_url) if configured else known.base_url if known else ""
    base_url = setup.base_url or present
    model = setup.model or (known.model if known else "")
    _check_name(setup.provider, base_url, model)
    kept = configured is not None and configured.api_key is not None and base_url == present
    if known is not None and not (setup.api_key or setup.base_url or kept):
        _check_environment(known, environ)
    section = f"models.providers.{setup.provider}"
    values: dict[str, JSON] = {
        f"{section}.baseUrl": base_url,
        PRIMARY: f"{setup.provider}/{model}",
    }
    if setup.api_key or not kept:
        values[f"{section}.apiKey"] = setup.api_key or None
    return values


def _check_name(provider: str, base_url: str, model: str) -> None:
    if not provider.replace("-", "").replace("_", "").isalnum():
        raise _unclear("The name of a provider has letters, digits, - and _ only.")
    if not base_url:
        raise _unclear(f"{provider} is not a known provider; give the address of its API.")
    if not model:
        raise _unclear(f"Name the model of {provider} that is to answer.")


def _check_environment(known: KnownProvider, environ: Mapping[str, str]) -> None:
    if not any(environ.get(name) for name in known.variables):
        raise _unclear(f"{known.name} needs a key.")


def _unclear(message: str) -> ConfigError:
    error = ConfigError(message)
    error.remedy = "Nothing was changed."
    return error
