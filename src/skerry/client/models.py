"""Model methods of a gateway, with typed results."""

from typing import Any

from skerry.client.client import GatewayClient
from skerry.model.errors import GatewayRefusedError
from skerry.ports.model import (
    ModelCost,
    ModelFailure,
    ModelInfo,
    ModelOffer,
    ModelPick,
    ModelState,
    ModelStatus,
    Offering,
    RestingProfile,
)


async def model_status(client: GatewayClient) -> ModelStatus:
    """Returns the state of the present model; uses the list of a gateway without `models.status`.

    Raises:
        ClientError: the gateway cannot be reached, or returned an error.
    """
    try:
        status = await client.request("models.status")
    except GatewayRefusedError:
        listed = await model_list(client)
        state = ModelState.READY if listed else ModelState.UNAVAILABLE
        return ModelStatus(state, listed[0] if listed else None)
    return _status(status)


async def model_use(client: GatewayClient, pick: ModelPick) -> ModelStatus:
    """Chooses a model; returns the state of the present model.

    Raises:
        ClientError: the gateway cannot be reached, or refused the choice.
    """
    params = {"ref": pick.ref or "", "file": pick.file or "", "pin": pick.pin}
    return _status(await client.request("models.use", params))


async def model_trust(client: GatewayClient, server: str, *, is_trusted: bool) -> ModelStatus:
    """Confirms a detected local server, or withdraws the confirmation.

    Raises:
        ClientError: the gateway cannot be reached, or refused it.
    """
    params = {"server": server, "trusted": is_trusted}
    return _status(await client.request("models.trust", params))


async def model_list(client: GatewayClient) -> list[ModelInfo]:
    """Returns the models that can be used now, the present one first.

    Raises:
        ClientError: the gateway cannot be reached, or returned an error.
    """
    return [_info(model) for model in (await client.request("models.list")).get("models", [])]


async def model_offering(client: GatewayClient) -> Offering:
    """Returns the usable models, and those that their providers list.

    Raises:
        ClientError: the gateway cannot be reached, or returned an error.
    """
    answer = await client.request("models.list", {"view": "all"})
    models = tuple(_info(model) for model in answer.get("models", []))
    return Offering(models, tuple(answer.get("problems", ())))


def _status(status: dict[str, Any]) -> ModelStatus:
    model = status.get("model")
    return ModelStatus(
        ModelState(status["state"]),
        _info(model) if model else None,
        status.get("message", ""),
        status.get("remedy", ""),
        tuple(
            RestingProfile(
                profile["profile"], profile["model"], profile["reason"], profile["until"]
            )
            for profile in status.get("resting", ())
        ),
        tuple(
            ModelOffer(
                offer["id"], offer["name"], offer["address"], offer["owner"], offer["before"]
            )
            for offer in status.get("offers", ())
        ),
        failure=_failure(status.get("failure")),
    )


def _failure(failure: dict[str, Any] | None) -> ModelFailure | None:
    if not failure:
        return None
    return ModelFailure(failure["code"], failure["message"], failure["remedy"], failure["at"])


def _info(model: dict[str, Any]) -> ModelInfo:
    return ModelInfo(
        provider=model["provider"],
        id=model["id"],
        name=model.get("name") or model["id"],
        context_window=model.get("contextWindow", 200_000),
        max_tokens=model.get("maxTokens", 8192),
        supports_tools=model.get("supportsTools", True),
        note=model.get("note", ""),
        reasoning=model.get("reasoning", False),
        input=frozenset(model.get("input", ("text",))),
        api=model.get("api", ""),
        cost=_cost(model.get("cost") or {}),
    )


def _cost(cost: dict[str, float]) -> ModelCost:
    names = ("input", "output", "cacheRead", "cacheWrite")
    sent, received, read, cache_written = (cost.get(name, 0.0) for name in names)
    return ModelCost(
        sent, received, read, cache_written, is_priced=any((sent, received, read, cache_written))
    )
