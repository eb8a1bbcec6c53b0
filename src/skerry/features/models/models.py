"""Finds the answering model, from a running gateway or without one; chooses a model."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from skerry.app.setup import picked
from skerry.app.trial import Trial, tried_once
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.client.models import model_list, model_offering, model_status, model_trust, model_use
from skerry.config.load import load_good, prepare
from skerry.config.root import Config
from skerry.config.write import ConfigAuthor, set_values
from skerry.features.models.book import book_trial
from skerry.infra.http import HttpClient
from skerry.model.errors import (
    GatewayUnreachableError,
    ModelError,
)
from skerry.plugins.discovery import candidates
from skerry.plugins.registering import register
from skerry.ports.model import (
    ModelInfo,
    ModelPick,
    ModelStatus,
    Offering,
)
from skerry.ports.model_candidates import CallTarget
from skerry.providers.catalog import Catalog
from skerry.sdk.host import PluginHost
from skerry.sdk.slots import model_parts


@dataclass(frozen=True, slots=True)
class ModelReport:
    """Answering model, other candidates, and the source of the report."""

    status: ModelStatus
    models: tuple[ModelInfo, ...]
    running: bool
    """True when a running gateway reported it. Otherwise it is the result of a start in this
    environment."""
    problems: tuple[str, ...] = ()
    """Providers that returned no list, in sentences."""


async def model_report(environ: Mapping[str, str], *, ask: bool = False) -> ModelReport:
    """Returns the report of the running gateway; without one, of this environment.

    With `ask` the report includes the models that the providers list.

    Raises:
        ConfigError: the configuration cannot be used.
        GatewayRefusedError: a running gateway does not admit this client.
    """
    try:
        async with GatewayClient(find(environ)) as client:
            if ask:
                offering = await model_offering(client)
            else:
                offering = Offering(tuple(await model_list(client)))
            status = await model_status(client)  # after the search for local servers
            return ModelReport(status, offering.models, running=True, problems=offering.problems)
    except GatewayUnreachableError:
        return await expected(environ, ask=ask)


async def expected(environ: Mapping[str, str], *, ask: bool = False) -> ModelReport:
    """Returns the report of a gateway that would start now here; `ask` as above.

    Raises:
        ConfigError: the configuration cannot be used.
    """
    async with _catalog(environ) as catalog:
        offering = await catalog.offered() if ask else Offering(tuple(await catalog.listing()))
        status = await catalog.status()  # after the search for local servers
        return ModelReport(status, offering.models, running=False, problems=offering.problems)


async def all_models(environ: Mapping[str, str]) -> list[ModelInfo]:
    """Returns the models that can be used in this environment, then all others of the catalogue.

    Raises:
        ConfigError: the configuration cannot be used.
    """
    async with _catalog(environ) as catalog:
        return await catalog.all_models()


async def use(environ: Mapping[str, str], pick: ModelPick) -> ModelReport:
    """Chooses a model, through the running gateway if there is one, else in the file.

    Raises:
        ConfigError: the configuration cannot be used, or the choice cannot be written.
        ModelUnavailableError: the named model cannot be used here.
        GatewayRefusedError: a running gateway refuses the choice.
    """
    if pick.file:
        return await _use_file(environ, pick)
    try:
        async with GatewayClient(find(environ)) as client:
            return ModelReport(await model_use(client, pick), (), running=True)
    except GatewayUnreachableError:
        ref = None
        if pick.ref:
            async with _catalog(environ) as catalog:
                ref = (await catalog.choose(pick.ref))[1].ref
        before = prepare(environ).config
        author = ConfigAuthor("models use", environ, before.state_dir)
        set_values(before.path, picked(pick, ref), author=author)
        return await expected(environ)


async def _use_file(environ: Mapping[str, str], pick: ModelPick) -> ModelReport:
    """Writes the file's name, as clients may not; then makes a running gateway read it."""
    before = prepare(environ).config
    author = ConfigAuthor("models use", environ, before.state_dir)
    change = set_values(before.path, picked(pick, None), author=author)
    try:
        async with GatewayClient(find(environ)) as client:
            raw, base = change.source.raw, change.source.hash
            await client.request("config.apply", {"raw": raw, "baseHash": base})
            return ModelReport(await model_status(client), (), running=True)
    except GatewayUnreachableError:
        return await expected(environ)


async def trust(environ: Mapping[str, str], server: str, *, is_trusted: bool) -> ModelReport:
    """Starts or stops the use of a discovered local server.

    Raises:
        ConfigError: the configuration cannot be used.
        ModelError: the server is unknown, or does not listen.
        StateError: the decision cannot be stored.
        GatewayRefusedError: a running gateway refuses it.
    """
    try:
        async with GatewayClient(find(environ)) as client:
            status = await model_trust(client, server, is_trusted=is_trusted)
            return ModelReport(status, (), running=True)
    except GatewayUnreachableError:
        async with _catalog(environ) as catalog:
            status = await catalog.trust(server, is_trusted=is_trusted)
            return ModelReport(status, (), running=False)


async def trial(environ: Mapping[str, str], ref: str | None) -> Trial | ModelError:
    """Calls the model of `ref`, or the answering one, once and without a gateway.

    Returns the measurements, or the failure.

    Raises:
        ConfigError: the configuration cannot be used.
    """
    async with _catalog(environ) as catalog:
        config = load_good(environ).config
        await _add_plugin_apis(catalog, config)
        agent = config.agents.default_id
        primary = config.primary_model(agent)
        try:
            (entry, *_) = await catalog.entries(ref or primary, CallTarget(agent=agent))
            result = await tried_once(*await catalog.open(entry, patient=True))
        except ModelError as error:
            return error
    book_trial(config, result.model, result.usage, result.total, entry.name)
    return result


async def _add_plugin_apis(catalog: Catalog, config: Config) -> None:
    """Adds the wire formats of plugins that `models.providers` names; loads these plugins here.

    Raises:
        PluginError: such a plugin cannot be loaded.
    """
    providers = config.models.providers.values()
    apis = {provider.api for provider in providers}
    apis |= {model.api for provider in providers for model in provider.models}
    plugins = {name.partition(".")[0] for name in apis if name and "." in name}
    host = PluginHost(network=lambda: config.tools.web.fetch.ssrf_policy.rules)
    for candidate in candidates(config, installed=False) if plugins else ():
        if candidate.id in plugins and candidate.refusal(config) is None:
            package = candidate.package(config)
            for api in (await register(config, candidate, package, host)).model_apis:
                catalog.add_api(api)


@asynccontextmanager
async def _catalog(environ: Mapping[str, str]) -> AsyncGenerator[Catalog]:
    loaded = load_good(environ)
    environ = loaded.expanded.environ
    async with (
        HttpClient() as http,
        Catalog(loaded.config, http, environ, model_parts()) as catalog,
    ):
        yield catalog
