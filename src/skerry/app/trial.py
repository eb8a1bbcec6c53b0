"""Trial calls of a model: tests that it answers, and measures its speed."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import anyio
from msgspec.structs import replace

from skerry.app.credential_files import Keeper
from skerry.auth.profiles import Profile, split_reference
from skerry.config.load import Loaded
from skerry.config.root import Config
from skerry.infra.http import HttpClient
from skerry.model.errors import (
    ModelConnectionError,
    ModelEmptyReplyError,
    ModelError,
    ModelNotFoundError,
    ModelRequestError,
    ModelUnavailableError,
)
from skerry.model.message import Usage, user
from skerry.ports.model import (
    History,
    ModelInfo,
    ModelProvider,
    ModelRequest,
    ModelSetup,
    ReplyListener,
)
from skerry.ports.model_candidates import CallTarget
from skerry.providers.builtin_providers import LOCAL
from skerry.providers.candidates import Choice
from skerry.providers.catalog import Catalog
from skerry.providers.embedded_model import ModelParts
from skerry.providers.model_catalog import Facts
from skerry.providers.model_health import remedy_of
from skerry.providers.names import ModelNames
from skerry.providers.offered import Offered, ask
from skerry.providers.resolve import Resolver, with_secret
from skerry.sdk.slots import model_parts

QUESTION: Final = "Answer with the one word: ready"
"""Prompt of a trial."""
TRIAL_SECONDS: Final = 300.0
"""Time limit of a trial: loading an embedded model may take two minutes."""
ATTEMPT_SECONDS: Final = 25.0
"""Time limit of the trial of a choice, for which the page waits."""
_MAX_TOKENS: Final = 256
"""Limit of the answer, in tokens; a model that thinks needs some before its text."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of a trial; times in seconds."""

    model: ModelInfo
    usage: Usage
    first: float
    """Seconds until the first output, thinking or text."""
    total: float

    @property
    def tokens_per_second(self) -> float:
        """Returns the speed after the first output; 0 when all output arrived at once."""
        after_first = self.total - self.first
        return self.usage.output / after_first if after_first > 0 else 0.0


async def tried_once(
    provider: ModelProvider, model: ModelInfo, seconds: float | None = None
) -> Trial:
    """Asks the model one short question.

    Raises:
        ModelError: the call failed, or the answer was not complete in time.
    """
    limit = seconds or TRIAL_SECONDS
    times: list[float] = []

    def hear(_: str) -> None:
        times.append(anyio.current_time())

    begin = anyio.current_time()
    request = ModelRequest(model, "", History([user(QUESTION, 0)]))
    with anyio.move_on_after(limit) as patience:
        reply = await provider.complete(request, ReplyListener(hear, hear))
    if patience.cancelled_caught:
        raise ModelConnectionError(f"{model.ref} gave no complete answer within {limit:g} s.")
    end = anyio.current_time()
    first = (times[0] if times else end) - begin
    return Trial(model, model.cost.of(reply.usage), first, end - begin)


async def attempt(
    loaded: Loaded, ref: str, *, entered: bool, parts: ModelParts | None = None
) -> int:
    """Tries a choice before it is written; returns the duration of the answer in milliseconds.

    Stores the facts that the provider reports about its models.

    Args:
        loaded: The configuration with the choice.
        ref: The model.
        entered: True when its key was entered with it; otherwise a stored credential is tried.
        parts: Wire formats of the running gateway, those of plugins included.

    Raises:
        ModelError: the model does not answer; it has a remedy.

    """
    agent = loaded.config.agents.default_id

    async def choose(catalog: Catalog) -> Choice:
        options = await catalog.entries(ref, CallTarget(agent=agent))
        keyless = [option for option in options if option.profile is None] if entered else []
        return await catalog.open((keyless or options)[0], patient=False)

    async def learn(catalog: Catalog) -> None:
        await catalog.offered(ModelSetup(ref.partition("/")[0]))

    return await _attempted(loaded.config, loaded.expanded.environ, choose, learn, parts)


async def attempt_profile(keeper: Keeper, profile: Profile, secret: str, model: str = "") -> int:
    """Tries a credential before it is stored; returns the duration of the answer in milliseconds.

    Args:
        keeper: Keeper of the credentials of the agent.
        profile: Profile of the credential.
        secret: Secret that is sent to the provider.
        model: Model of the provider; empty for the agent's primary model, if it is of the provider,
            or the provider's default model.

    Raises:
        ModelError: the model does not answer; it has a remedy.

    """
    ref = f"{profile.provider}/{model}" if model else profile.provider
    primary = ModelNames(keeper.config.agents, keeper.config.models).reference(
        split_reference(keeper.config.primary_model(keeper.agent) or "")[0]
    )
    if not model and primary.partition("/")[0] == profile.provider:
        ref = primary

    async def choose(catalog: Catalog) -> Choice:
        return catalog.presented(ref, profile, secret)

    return await _attempted(keeper.config, keeper.environ, choose)


async def first_model(keeper: Keeper, profile: Profile, secret: str) -> str:
    """Returns the first model that a provider lists for this secret; empty when it lists none.

    Raises:
        ModelError: the provider refuses the secret or does not answer; it has a remedy.

    """
    config = keeper.config
    resolver = Resolver(config.models, keeper.environ, LOCAL, Facts(config.state_dir))
    apis = model_parts().apis
    models: list[Offered] = []
    failed: ModelError | None = None
    async with HttpClient() as http:
        try:
            target = resolver.named(f"{profile.provider}/-", keyless=True)
            endpoint = with_secret(target, profile, secret, apis).endpoint
            models = await ask(http, apis.get(endpoint.api), endpoint)
        except (ModelRequestError, ModelNotFoundError, ModelUnavailableError):
            pass
        except ModelError as error:
            failed = error
    if failed is not None:
        failed.remedy = f"{remedy_of(failed)} Nothing was saved."
        raise failed
    return models[0].id if models else ""


async def _attempted(
    config: Config,
    environ: Mapping[str, str],
    choose: Callable[[Catalog], Awaitable[Choice]],
    then: Callable[[Catalog], Awaitable[None]] | None = None,
    parts: ModelParts | None = None,
) -> int:
    """Asks the model of `choose` one short question, then calls `then`; returns milliseconds.

    The remedy of an error contains "Nothing was saved."
    """
    parts = parts or model_parts()
    async with HttpClient() as http, Catalog(config, http, environ, parts) as catalog:
        try:
            provider, model = await choose(catalog)
            limited = replace(model, max_tokens=min(_MAX_TOKENS, model.max_tokens))
            begin = anyio.current_time()
            with suppress(ModelEmptyReplyError):  # all tokens were used for thinking
                await tried_once(provider, limited, ATTEMPT_SECONDS)
            took = round((anyio.current_time() - begin) * 1000)
            if then is not None:
                await then(catalog)
            return took  # noqa: TRY300 - the normal result
        except ModelError as error:
            failed = error  # raised below: the block would wrap it into a group
    failed.remedy = f"{remedy_of(failed)} Nothing was saved."
    raise failed
