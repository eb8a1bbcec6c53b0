"""Methods for models: show the answering model, choose one, list those of providers."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, NoParams, Params
from skerry.ports.model import ModelPick, ModelSetup, ModelStatus

_API_KEY: Final = re.compile(r"[\x21-\x7e]{0,512}")


def _is_key(value: SecretStr) -> SecretStr:
    """Refuses a key that a header cannot contain; errors of the HTTP library would print it."""
    if not _API_KEY.fullmatch(value.get_secret_value()):
        message = "must be at most 512 printable ASCII characters without spaces"
        raise ValueError(message)
    return value


class ModelsOfferedParams(Params):
    """Parameters of `models.offered`: a configured provider, or settings to try."""

    provider: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9._-]*$")]
    api_key: Annotated[SecretStr, AfterValidator(_is_key)] = SecretStr("")
    base_url: Annotated[str, Field(max_length=2048, pattern=r"^(https?://[\x21-\x7e]+)?$")] = ""


class ModelsConfigureParams(Params):
    """Parameters of `models.configure`; empty fields keep the configured value."""

    provider: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9._-]*$")] = ""
    model: Annotated[str, Field(max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    api_key: Annotated[SecretStr, AfterValidator(_is_key)] = SecretStr("")
    base_url: Annotated[str, Field(max_length=2048, pattern=r"^(https?://[\x21-\x7e]+)?$")] = ""
    untried: bool = False


class ModelsUseParams(Params):
    """Parameters of `models.use`: a reference, an alias or a file; by default automatic."""

    ref: Annotated[str, Field(max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    file: Annotated[str, Field(max_length=4096, pattern=r"^(/[^\x00]*)?$")] = ""
    pin: bool = False


class ModelsTrustParams(Params):
    """Parameters of `models.trust`: a discovered local server, and true to use it."""

    server: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
    trusted: bool = True


async def models_offered(call: Call, params: ModelsOfferedParams) -> Json:
    """Returns the models that a provider lists, or the known ones with `problems`.

    `contextWindow` and `input` are present where they are known. Nothing is saved.
    """
    key = params.api_key.get_secret_value()
    setup = ModelSetup(params.provider, api_key=key, base_url=params.base_url)
    offering = await call.context.models.offered(setup)
    return {
        "models": [
            {
                "id": model.id,
                "name": model.name,
                **({"contextWindow": model.context_window} if model.context_window else {}),
                "input": sorted(model.input, reverse=True),
            }
            for model in offering.models
        ],
        "problems": list(offering.problems),
    }


async def models_status(call: Call, _params: NoParams) -> Json:
    """Returns the answering model."""
    return _status(await call.context.models.status())


async def models_configure(call: Call, params: ModelsConfigureParams) -> Json:
    """Tests a model or key with one call and chooses it; returns the answering model.

    With `untried` it skips the call.
    """
    setup = ModelSetup(
        provider=params.provider,
        model=params.model,
        api_key=params.api_key.get_secret_value(),
        base_url=params.base_url,
        untried=params.untried,
    )
    return _status(await call.context.setup.configure_model(setup))


async def models_use(call: Call, params: ModelsUseParams) -> Json:
    """Chooses a usable model; returns the answering model."""
    pick = ModelPick(params.ref or None, params.file or None, params.pin)
    return _status(await call.context.setup.use_model(pick))


async def models_trust(call: Call, params: ModelsTrustParams) -> Json:
    """Starts or stops the use of a local server; returns the answering model."""
    return _status(await call.context.models.trust(params.server, is_trusted=params.trusted))


def _status(status: ModelStatus) -> Json:
    model, failure = status.model, status.failure
    return {
        **({} if status.latency_ms is None else {"latencyMs": status.latency_ms}),
        "failure": failure
        and {
            "code": failure.code,
            "message": failure.message,
            "remedy": failure.remedy,
            "at": failure.at,
        },
        "state": status.state.value,
        "message": status.message,
        "remedy": status.remedy,
        "resting": [
            {
                "profile": resting.profile,
                "model": resting.model,
                "reason": resting.reason,
                "until": resting.until,
            }
            for resting in status.resting
        ],
        "offers": [
            {
                "id": offer.id,
                "name": offer.name,
                "address": offer.address,
                "owner": offer.owner,
                "before": offer.before,
                "message": offer.text,
                "remedy": offer.remedy,
            }
            for offer in status.offers
        ],
        "model": model
        and {
            "ref": model.ref,
            "id": model.id,
            "name": model.name or model.id,
            "provider": model.provider,
            "contextWindow": model.context_window,
            "maxTokens": model.max_tokens,
            "supportsTools": model.supports_tools,
            "note": model.note,
            "reasoning": model.reasoning,
            "input": sorted(model.input, reverse=True),
            "api": model.api,
            "cost": {
                "input": model.cost.input,
                "output": model.cost.output,
                "cacheRead": model.cost.cache_read,
                "cacheWrite": model.cost.cache_write,
            },
        },
    }


METHODS: Final = (
    Method("models.offered", ModelsOfferedParams, models_offered),
    Method("models.status", NoParams, models_status),
    Method("models.configure", ModelsConfigureParams, models_configure),
    Method("models.use", ModelsUseParams, models_use),
    Method("models.trust", ModelsTrustParams, models_trust),
)
