"""Calls a model once, to find out whether it answers and how fast."""

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
"""Seconds for the whole of a trial: an embedded model may load for two minutes before it
answers."""
ATTEMPT_SECONDS: Final = 25.0
"""Seconds for the trial of a choice: the page waits for it."""
_MAX_TOKENS: Final = 256
"""Tokens that the answer may have; a model that thinks needs some before its first word."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of one tiny call of a model; times in seconds."""

    model: ModelInfo
    usage: Usage
    first: float
    """Seconds until the first piece, of thinking or text."""
    total: float

    @property
    def tokens_per_second(self) -> float:
        """Returns the speed behind the first piece; 0 where all came at once."""
        after_first = self.total - self.first
        return self.usage.output / after_first if after_first > 0 else 0.0


async def tried_once(
    provider: ModelProvider, model: ModelInfo, seconds: float | None = None
) -> Trial:
    """Asks the model one short question.

    Raises:
        ModelError: it failed, or gave no whole answer in time.
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
        raise ModelConnectionError(f"{model.ref} gave no whole answer within {limit:g} s.")
    end = anyio.current_time()
    first = (times[0] if times else end) - begin
    return Trial(model, model.cost.of(reply.usage), first, end - begin)


async def attempt(
    loaded: Loaded, ref: str, *, entered: bool, parts: ModelParts | None = None
) -> int:
    """Tries a choice before it is taken; returns how many milliseconds the answer took.

    What its provider says of its models, windows and images, is kept for the model's use.

    Args:
        loaded: What the configuration would be.
        ref: The model.
        entered: Whether its key was entered with it; else the one that would be used is tried.
        parts: Wire formats of the running gateway, those of plugins included.

    Raises:
        ModelError: it does not answer; the remedy says what to do.

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
    """Tries a credential before it is kept; returns how many milliseconds the answer took.

    Args:
        keeper: Whose it would be.
        profile: As it would be kept.
        secret: What the provider is shown.
        model: Of this provider; empty takes the one that answers the agent, else the usual one.

    Raises:
        ModelError: it does not answer; the remedy says what to do.

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
    """Returns the first model that a provider names to who shows it this secret.

    Empty where it names none, or is no address that can be asked for them.

    Raises:
        ModelError: it refuses the secret or does not answer; the remedy says what to do.

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
    """Asks what `choose` gives one short question, then does what follows an answer.

    What fails says that nothing was saved.
    """
    parts = parts or model_parts()
    async with HttpClient() as http, Catalog(config, http, environ, parts) as catalog:
        try:
            provider, model = await choose(catalog)
            limited = replace(model, max_tokens=min(_MAX_TOKENS, model.max_tokens))
            begin = anyio.current_time()
            with suppress(ModelEmptyReplyError):  # it thought, and had no token left to say so
                await tried_once(provider, limited, ATTEMPT_SECONDS)
            took = round((anyio.current_time() - begin) * 1000)
            if then is not None:
                await then(catalog)
            return took  # noqa: TRY300 - an answer is what this is about
        except ModelError as error:
            failed = error  # raised out of the block, which would make a group of it
    failed.remedy = f"{remedy_of(failed)} Nothing was saved."
    raise failed
