"""Lists the models of providers, joined with the facts of the catalogue."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace as changed

from skerry.infra.http import HttpClient
from skerry.model.errors import ModelError
from skerry.ports.model import ModelInfo, ModelSetup, Offering
from skerry.providers.builtin_providers import known_provider
from skerry.providers.model_apis import USUAL, ModelApis
from skerry.providers.names import ModelNames
from skerry.providers.offered import Answers, Offered, answer
from skerry.providers.resolve import Resolver
from skerry.providers.streaming_call import Endpoint

UNKNOWN_WINDOW: Final = 0
"""Window of a model without known facts at an address that is not configured yet."""


class ModelLister(Struct, frozen=True):
    """Requests the models of all providers concurrently; `answers_cache` has recent answers."""

    http: HttpClient
    apis: ModelApis
    resolver: Resolver
    names: ModelNames
    answers_cache: Answers

    async def all(
        self, endpoints: Mapping[str, Endpoint | None], usable: Sequence[ModelInfo]
    ) -> Offering:
        """Returns the `usable` models, then the models that the providers list, and all errors."""
        answers: dict[str, list[Offered] | ModelError] = {}

        async def ask(name: str, endpoint: Endpoint) -> None:
            answers[name] = await self._answer(endpoint)

        async with anyio.create_task_group() as group:
            for name, endpoint in endpoints.items():
                if endpoint is not None:
                    group.start_soon(ask, name, endpoint)
        infos = {model.ref: model for model in usable}
        problems: list[str] = []
        for name in endpoints:
            match answers.get(name):
                case ModelError() as error:
                    problems.append(str(error))
                    listed = self._catalogued(name)
                case None:
                    listed = []
                case models:
                    listed = self._infos(name, models)
            for info in listed:
                infos.setdefault(info.ref, info)
        return Offering(tuple(infos.values()), tuple(problems))

    async def of_setup(self, setup: ModelSetup, present: Endpoint | None) -> Offering:
        """Returns the models of the provider that `setup` describes, without storing it.

        A stored credential is sent to the address for which it was entered only.
        """
        endpoint = _described(setup, present)
        if endpoint is None:
            return Offering(tuple(self._catalogued(setup.provider)))
        models = await self._answer(endpoint)
        if isinstance(models, ModelError):
            return Offering(tuple(self._catalogued(setup.provider)), (str(models),))
        if present is not None and endpoint.base_url == present.base_url:
            return Offering(tuple(self._infos(setup.provider, models)))
        return Offering(tuple(_plain(setup.provider, model) for model in models))

    async def _answer(self, endpoint: Endpoint) -> list[Offered] | ModelError:
        try:
            api = self.apis.get(endpoint.api)
        except ModelError as error:
            return error
        listed = await answer(self.http, api, endpoint, self.answers_cache, time.monotonic)
        if not isinstance(listed, ModelError):
            facts = self.resolver.facts
            await anyio.to_thread.run_sync(facts.learn, endpoint.base_url, listed)
        return listed

    def _catalogued(self, provider: str) -> list[ModelInfo]:
        """Returns the models of the catalogue, for a provider that does not list its own."""
        hosted = known_provider(provider)
        listed = self.resolver.facts.models(hosted.id) if hosted else []
        return self._infos(provider, [Offered(name) for name in listed])

    def _infos(self, provider: str, offered: Sequence[Offered]) -> list[ModelInfo]:
        """Returns the facts of the allowed models."""
        infos: list[ModelInfo] = []
        for model in offered:
            with suppress(ModelError):  # the configuration does not allow the model
                self.names.check(f"{provider}/{model.id}")
                info = self.resolver.named(f"{provider}/{model.id}", keyless=True).info
                infos.append(
                    changed(info, name=model.name) if model.name and info.name == model.id else info
                )
        return infos


def _described(setup: ModelSetup, present: Endpoint | None) -> Endpoint | None:
    """Returns the endpoint of a setup; None when no address is known."""
    hosted = known_provider(setup.provider)
    address = setup.base_url or (present.base_url if present else hosted.base_url if hosted else "")
    if present is not None and address.rstrip("/") == present.base_url.rstrip("/"):
        return replace(present, api_key=setup.api_key) if setup.api_key else present
    if not address:
        return None
    is_usual = hosted is not None and address.rstrip("/") == hosted.base_url
    api = hosted.api if hosted is not None and is_usual else USUAL
    name = hosted.name if hosted is not None else setup.provider or "the service"
    return Endpoint(name, address, setup.api_key or None, api=api)


def _plain(provider: str, model: Offered) -> ModelInfo:
    """Returns a model as its provider describes it."""
    sees = frozenset({"text", "image"} if model.sees else {"text"})
    return ModelInfo(
        provider,
        model.id,
        model.name or model.id,
        model.context_window or UNKNOWN_WINDOW,
        input=sees,
    )
