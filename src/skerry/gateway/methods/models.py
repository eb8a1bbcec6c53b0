"""The method `models.list`: the models that can be used."""

from typing import ClassVar, Final

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params
from skerry.gateway.methods import rows
from skerry.model.thinking import ThinkingLevel
from skerry.ports.model import ModelInfo


class ModelsListParams(Params):
    """Parameters of `models.list`. Usable models are the same for every agent and session."""

    ignored: ClassVar = {
        **dict.fromkeys(("preparedOnly", "includeDefaultModels"), "Only usable models are listed."),
        **dict.fromkeys(
            ("includeProviderCapabilities", "includeDetails"), "Every row has all known details."
        ),
        "refresh": "Every request looks models up; lists of providers are cached for minutes.",
        "authProfileId": "Models are the same for every client.",
    }

    agent_id: Name | None = None
    session_key: Name | None = None
    provider: Name | None = None
    view: Name | None = None
    """`all` asks the providers which models they have; other values list the configured models."""


async def models_list(call: Call, params: ModelsListParams) -> Json:
    """Returns the models that can be used now, the one in use first.

    The view `all` asks the providers for their models; `problems` describes the providers that did
    not answer.
    """
    models, problems = call.context.models, list[Json]()
    if params.view == "all":
        offering = await models.offered()
        listing, problems = list(offering.models), list(offering.problems)
    else:
        listing = await models.listing()
    config = call.context.config()
    level = config.thinking(config.agents.default_id)
    entries = [
        _model(model, default=not position) | _thinks(call, model, level)
        for position, model in enumerate(listing)
        if params.provider in {None, model.provider}
    ]
    return {"models": entries} | ({"problems": problems} if problems else {})


def _thinks(call: Call, model: ModelInfo, level: ThinkingLevel | None) -> dict[str, Json]:
    return rows.thinking(model, level) if call.protocol > 3 else {}  # noqa: PLR2004 - the version


def _model(model: ModelInfo, *, default: bool) -> dict[str, Json]:
    row: dict[str, Json] = {
        "id": model.id,
        "name": model.name or model.id,
        "provider": model.provider,
        "contextWindow": model.context_window,
        "reasoning": model.reasoning,
        "input": sorted(model.input, reverse=True),
        "supportsTools": model.supports_tools,
        "available": True,
    }
    if default:
        row["tags"] = ["default"]
    return row


METHODS: Final = (Method("models.list", ModelsListParams, models_list),)
