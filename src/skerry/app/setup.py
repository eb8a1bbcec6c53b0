"""Writes a person's choice of model into the configuration. Implements `ports.model.Setup`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from skerry.app.late import trial
from skerry.app.settings import Settings
from skerry.config.models import ProviderConfig
from skerry.config.redact import JSON
from skerry.model.errors import ConfigError
from skerry.ports.model import ModelPick, Models, ModelSetup, ModelStatus
from skerry.providers.builtin_providers import KnownProvider, known_provider
from skerry.providers.catalog import Catalog
from skerry.providers.embedded_model import EMBEDDED

PRIMARY: Final = "agents.defaults.model.primary"
FILE: Final = "models.embedded.file"
MAGIC: Final = b"GGUF"


class ModelSettings(Struct, frozen=True):
    """Writes the choice into `skerry.json`; effective from the next run."""

    settings: Settings
    models: Models
    environ: Mapping[str, str]

    async def configure_model(self, setup: ModelSetup) -> ModelStatus:
        """Tries the choice, writes and applies it; an empty choice selects the default order.

        A choice that fails its trial changes nothing.
        """
        configured = self.settings.config.models.providers.get(setup.provider)
        values = changes(setup, configured, self.environ)
        latency = None
        if setup.provider and not setup.untried:
            loaded = await self.settings.preview(values)
            latency = await trial.attempt(
                loaded,
                str(values[PRIMARY]),
                entered=bool(setup.api_key),
                parts=self.models.parts if isinstance(self.models, Catalog) else None,
            )
        await self.settings.change(values)
        return replace(await self.models.status(), latency_ms=latency)

    async def use_model(self, pick: ModelPick) -> ModelStatus:
        """Writes and applies the choice; a model that cannot be used changes nothing."""
        ref = None
        if pick.ref:
            _, info = await self.models.choose(pick.ref)
            ref = info.ref
        elif pick.file:
            await anyio.to_thread.run_sync(gguf, pick.file)
        await self.settings.change(picked(pick, ref))
        return await self.models.status()


def picked(pick: ModelPick, ref: str | None) -> dict[str, JSON]:
    """Returns the values for the configuration; `ref` is the resolved name of the model."""
    if pick.file is None:
        return {PRIMARY: ref}
    values: dict[str, JSON] = {FILE: pick.file}
    if pick.pin:
        values[PRIMARY] = f"{EMBEDDED}/{Path(pick.file).stem}"
    return values


def _at_once(path: str, flags: int) -> int:
    """Opens without blocking: a pipe without a writer would block for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


def gguf(choice: str) -> Path:
    """Returns the absolute path of a file with the signature of GGUF.

    Raises:
        ConfigError: the file has another signature, or cannot be read.
    """
    file = Path(choice).expanduser().absolute()
    try:
        with open(file, "rb", opener=_at_once) as opened:
            magic = opened.read(len(MAGIC))
    except OSError as error:
        unread = ConfigError(f"{file} cannot be read: {error.strerror}.")
        unread.remedy = "Name an existing file in the format of llama.cpp."
        raise unread from error
    if magic == MAGIC:
        return file
    invalid = ConfigError(f"{file} is not a GGUF file: it does not begin with the letters GGUF.")
    invalid.remedy = "Name a model in the format of llama.cpp; the download may be broken."
    raise invalid


def changes(
    setup: ModelSetup, configured: ProviderConfig | None, environ: Mapping[str, str]
) -> dict[str, JSON]:
    """Returns the values for the configuration.

    A stored key is used for its address only: a new address removes the old key.

    Raises:
        ConfigError: the provider is unknown, or a necessary model or key is missing.
    """
    if not setup.provider:
        if setup.api_key or setup.base_url or setup.model:
            raise _unclear("A key, an address or a model needs the name of its provider.")
        return {PRIMARY: None}
    provider = known_provider(setup.provider)
    present = str(configured.base_url) if configured else provider.base_url if provider else ""
    base_url = setup.base_url or present
    model = setup.model or (provider.model if provider else "")
    _check_name(setup.provider, base_url, model)
    keeps_key = configured is not None and configured.api_key is not None and base_url == present
    if provider is not None and not (setup.api_key or setup.base_url or keeps_key):
        _check_environment(provider, environ)
    section = f"models.providers.{setup.provider}"
    values: dict[str, JSON] = {
        f"{section}.baseUrl": base_url,
        PRIMARY: f"{setup.provider}/{model}",
    }
    if setup.api_key or not keeps_key:
        values[f"{section}.apiKey"] = setup.api_key or None
    return values


def _check_name(provider: str, base_url: str, model: str) -> None:
    if not provider.replace("-", "").replace("_", "").isalnum():
        raise _unclear("The name of a provider has letters, digits, - and _ only.")
    if not base_url:
        raise _unclear(f"{provider} is not a known provider; give the address of its API.")
    if not model:
        raise _unclear(f"Name the model of {provider} that is to answer.")


def _check_environment(provider: KnownProvider, environ: Mapping[str, str]) -> None:
    if not any(environ.get(name) for name in provider.variables):
        raise _unclear(f"{provider.name} needs a key.")


def _unclear(message: str) -> ConfigError:
    error = ConfigError(message)
    error.remedy = "Nothing was changed."
    return error
