"""Methods for webhooks: list them, and show the run that a post would start."""

from typing import Annotated, Any, Final

import anyio.to_thread
from pydantic import Field

from skerry.config.webhooks import MappingConfig
from skerry.features.webhooks import posts, proof
from skerry.features.webhooks.bodies import BodyError, payload_of
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, NoParams, Params, RefusedError
from skerry.infra.clock import iso


class TestParams(Params):
    """Parameters of `webhooks.test`."""

    __test__ = False

    name: Annotated[str, Field(min_length=1, max_length=64)]
    body: Annotated[str, Field(max_length=1_048_576)] = "{}"
    headers: dict[str, str] = Field(default_factory=dict, max_length=100)


async def webhooks_list(call: Call, _params: NoParams) -> Json:
    """Returns the state of webhooks, and each with its address and limits, without secrets."""
    config = call.context.config().hooks
    rows: list[Json] = []
    if config.enabled and config.token is not None:
        rows += [
            _row("wake", None, "wake", config.max_body_bytes, config.rate_per_minute),
            _row("agent", None, "agent", config.max_body_bytes, config.rate_per_minute),
        ]
    rows += [
        _row(
            mapping.name,
            mapping,
            mapping.action,
            mapping.max_body_bytes or config.max_body_bytes,
            mapping.rate_per_minute or config.rate_per_minute,
        )
        for mapping in config.mappings
    ]
    weak = proof.weakness(config.token.get_secret_value()) if config.token else ""
    return {"enabled": config.enabled, "weakToken": weak or None, "webhooks": rows}


async def webhooks_test(call: Call, params: TestParams) -> Json:
    """Returns the run that a post to a mapping would start, without starting it."""
    config = call.context.config()
    mapping = next((row for row in config.hooks.mappings if row.name == params.name), None)
    if mapping is None:
        names = ", ".join(row.name for row in config.hooks.mappings) or "none"
        message = f"No webhook {params.name!r} in hooks.mappings. Webhooks: {names}."
        details: dict[str, Json] = {"remedy": "List the webhooks: skerry webhooks list"}
        raise RefusedError(message, details=details)
    try:
        payload = payload_of(params.body.encode())
    except BodyError as error:
        raise RefusedError(str(error)) from error
    headers = {name.lower(): text for name, text in params.headers.items()}
    now = iso(call.context.clock.now_ms())
    post = posts.WebhookPost(mapping.name, payload, headers, "test", now)
    order = posts.order_of(config, mapping)
    request = await anyio.to_thread.run_sync(posts.request, post, order)
    return {
        "name": mapping.name,
        "agentId": request.key.agent,
        "sessionKey": str(request.key),
        "model": request.model,
        "message": request.text,
    }


def _row(
    name: str, mapping: MappingConfig | None, action: str, max_bytes: int, rate: int
) -> dict[str, Any]:
    return {
        "name": name,
        "path": f"/hooks/{name}",
        "action": action,
        "proof": "signature" if mapping is not None and mapping.signature else "token",
        "agentId": mapping.agent_id if mapping else None,
        "channel": mapping.channel if mapping else None,
        "maxBodyBytes": max_bytes,
        "ratePerMinute": rate,
    }


METHODS: Final = (
    Method("webhooks.list", NoParams, webhooks_list),
    Method("webhooks.test", TestParams, webhooks_test),
)
