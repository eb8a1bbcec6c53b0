"""Lets a person choose the model while the gateway runs. Implements `ports.model.Setup`."""

from dataclasses import dataclass

from skerry.app.settings import Settings
from skerry.config.redact import JSON
from skerry.model.errors import ConfigError
from skerry.ports.model import Models, ModelSetup, ModelStatus
from skerry.providers.known import KNOWN


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Writes the choice into `skerry.json`; the next run uses it."""

    settings: Settings
    models: Models

    async def configure_model(self, setup: ModelSetup) -> ModelStatus:
        """Write the choice and use it; an empty choice lets the order of choice decide again."""
        await self.settings.change(changes(setup))
        return await self.models.status()


def changes(setup: ModelSetup) -> dict[str, JSON]:
    """Return the values of the file that the choice means.

    Raises:
        ConfigError: it names no provider that is known, or no model where one is needed.
    """
    if not setup.provider:
        if setup.api_key or setup.base_url or setup.model:
            raise _unclear("A key, an address or a model needs the name of its provider.")
        return {"agents.defaults.model.primary": None}
    if not setup.provider.replace("-", "").replace("_", "").isalnum():
        raise _unclear("The name of a provider has letters, digits, - and _ only.")
    known = next((one for one in KNOWN if one.id == setup.provider), None)
    base_url = setup.base_url or (known.base_url if known else "")
    model = setup.model or (known.model if known else "")
    if not base_url:
        raise _unclear(f"{setup.provider} is not a known provider; give the address of its API.")
    if not model:
        raise _unclear(f"Name the model of {setup.provider} that is to answer.")
    section = f"models.providers.{setup.provider}"
    values: dict[str, JSON] = {
        f"{section}.baseUrl": base_url,
        "agents.defaults.model.primary": f"{setup.provider}/{model}",
    }
    if setup.api_key:
        values[f"{section}.apiKey"] = setup.api_key
    return values


def _unclear(message: str) -> ConfigError:
    error = ConfigError(message)
    error.remedy = "Nothing was changed."
    return error
