"""Which model answers, asked of the running gateway, or found out without one."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.client.models import model_list, model_status
from skerry.config.load import load
from skerry.infra.http import http_client
from skerry.model.errors import GatewayUnreachableError, ModelUnavailableError
from skerry.ports.model import ModelInfo, ModelStatus
from skerry.providers.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Standing:
    """Which model answers, which others could, and who said so."""

    status: ModelStatus
    models: tuple[ModelInfo, ...]
    running: bool
    """Whether a running gateway said it. Else it is what one would find if it started here now."""


async def standing(environ: Mapping[str, str]) -> Standing:
    """Ask the running gateway; without one look for models in this environment.

    Raises:
        ConfigError: the configuration cannot be used.
        GatewayRefusedError: a gateway runs and does not let this client in.
    """
    try:
        async with GatewayClient(find(environ)) as client:
            return Standing(
                await model_status(client), tuple(await model_list(client)), running=True
            )
    except GatewayUnreachableError:
        return await expected(environ)


async def expected(environ: Mapping[str, str]) -> Standing:
    """Return what a gateway would find that started now in this environment.

    Raises:
        ConfigError: the configuration cannot be used.
    """
    async with _catalog(environ) as catalog:
        return Standing(await catalog.status(), tuple(await catalog.listing()), running=False)


async def unusable(environ: Mapping[str, str], ref: str) -> ModelUnavailableError | None:
    """Return why `provider/model` cannot be used in this environment, or None; nobody is asked.

    Raises:
        ConfigError: the configuration cannot be used.
    """
    async with _catalog(environ) as catalog:
        try:
            await catalog.choose(ref)
        except ModelUnavailableError as error:
            return error
        return None


@asynccontextmanager
async def _catalog(environ: Mapping[str, str]) -> AsyncGenerator[Catalog]:
    config = load(environ).config
    async with http_client() as http, Catalog(config, http, environ) as catalog:
        yield catalog
