"""Handles posts to `/hooks/`: proof, limits, body, then one unit, then 202.

Cheap checks are first: checks without the body precede its reading.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from time import monotonic
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct, field
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from skerry.config.webhooks import MappingConfig, WebhooksConfig
from skerry.features.webhooks import posts, proof, tables
from skerry.features.webhooks.bodies import AgentBody, BodyError, WakeBody, agent_order, payload_of
from skerry.features.webhooks.posts import Order
from skerry.gateway.context import GatewayContext
from skerry.gateway.peer import ClientPeer
from skerry.gateway.peer import peer as peer_of
from skerry.gateway.request_body import RefusedPost, read_body
from skerry.gateway.shared_secret import Failures
from skerry.infra.clock import iso
from skerry.model.errors import BusyError, KeyReusedError, SkerryError, StateError
from skerry.model.run import Admission, AdmissionStatus, RunRequest
from skerry.store import Reader, Unit, runs

_MINUTE: Final = 60.0
_MAX_KEY: Final = 256
_MAX_COUNTED: Final = 1_000
"""Maximum number of counted webhooks and addresses."""
_HIDDEN: Final = frozenset({"authorization", "cookie", *proof.TOKEN_HEADERS})
_RANDOM: Final = "random:"
_EVENT_HEADERS: Final = ("idempotency-key", "x-github-delivery", "x-skerry-delivery")


class Rates(Struct):
    """Limits the posts of each webhook per minute."""

    _times: OrderedDict[str, list[float]] = field(default_factory=OrderedDict)

    def admit(self, name: str, limit: int, now: float) -> float:
        """Counts a post; returns 0 for an admitted post, otherwise the seconds to wait."""
        times = [time for time in self._times.pop(name, []) if now - time < _MINUTE]
        wait = _MINUTE - (now - times[0]) if len(times) >= limit else 0.0
        self._times[name] = times if wait else [*times, now]
        if len(self._times) > _MAX_COUNTED:
            self._times.popitem(last=False)
        return wait


class Webhooks:
    """Serves webhook posts for one gateway."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._failures = Failures()
        self._rates = Rates()

    async def serve(self, request: Request) -> Response:
        """Returns 202 after the COMMIT of the run, or the refusal."""
        try:
            answer = await self._post(request)
        except RefusedPost as refused:
            message = {"ok": False, "error": str(refused)}
            return _json(message, refused.status, refused.headers)
        return _json(answer, 202)

    async def _post(self, request: Request) -> dict[str, Any]:
        config = self._context.config().hooks
        name = request.path_params["path"]
        mapping = next((mapping for mapping in config.mappings if mapping.name == name), None)
        if not config.enabled:
            raise RefusedPost(404, "webhooks are off; set hooks.enabled and hooks.token")
        if request.method != "POST":
            raise RefusedPost(405, "webhooks accept only POST", {"allow": "POST"})
        if {"token", "access_token", "key"} & set(request.query_params):
            raise RefusedPost(400, "send the token in a header: logs contain addresses")
        headers = {key.lower(): value for key, value in request.headers.items()}
        await self._prove(request, config, mapping, headers)
        if mapping is None and name not in {"wake", "agent"}:
            raise RefusedPost(404, f"no webhook {name!r}; see hooks.mappings")
        signature = mapping.signature if mapping else None
        # A post without proof counts only for its address, so it uses up no posts of the sender.
        self._limit(config, mapping, name, self._peer(request).bucket if signature else "")
        max_bytes = (mapping and mapping.max_body_bytes) or config.max_body_bytes
        body = await read_body(request, max_bytes)
        if signature is not None and not proof.is_signed(signature, headers, body):
            await self._fail(request)
            raise RefusedPost(401, "the signature does not match the body")
        if signature is not None:
            self._limit(config, mapping, name)
        return await self._start(name, mapping, headers, body)

    async def _prove(
        self,
        request: Request,
        config: WebhooksConfig,
        mapping: MappingConfig | None,
        headers: Mapping[str, str],
    ) -> None:
        """Checks the headers before the body is read.

        Raises:
            RefusedPost: the headers prove nothing, or the address has failed too often.
        """
        gateway, peer = self._context.config().gateway, self._peer(request)
        wait_seconds = self._failures.locked(peer, monotonic())
        if wait_seconds:
            headers_ = {"retry-after": str(int(wait_seconds) + 1)}
            raise RefusedPost(429, "too many posts with a wrong token", headers_)
        if mapping is not None and mapping.signature is not None:
            now = self._context.clock.now_ms() / 1000
            reason = proof.claims(mapping.signature, headers, now)
            if reason:
                await self._fail(request)
                raise RefusedPost(401, reason)
            return
        token = config.token.get_secret_value() if config.token else ""
        if token and proof.is_token(token, gateway.auth.secret or ""):
            raise RefusedPost(
                503, "hooks.token is the gateway's token; give webhooks another token"
            )
        if not proof.is_token(proof.token_of(headers), token):
            await self._fail(request)
            raise RefusedPost(
                401, "send hooks.token: Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"}
            )
        self._failures.forget(peer)

    async def _fail(self, request: Request) -> None:
        """Delays the response to a wrong proof."""
        await anyio.sleep(self._failures.delay(self._peer(request), monotonic()))

    def _peer(self, request: Request) -> ClientPeer:
        return peer_of(request.scope, self._context.config().gateway.trusted_proxies)

    def _limit(
        self, config: WebhooksConfig, mapping: MappingConfig | None, name: str, address: str = ""
    ) -> None:
        """Counts a post of a webhook, or of one address to it.

        Raises:
            RefusedPost: the limit is reached.
        """
        limit = (mapping and mapping.rate_per_minute) or config.rate_per_minute
        wait_seconds = self._rates.admit(f"{name} {address}", limit, monotonic())
        if wait_seconds:
            wait = {"retry-after": str(int(wait_seconds) + 1)}
            raise RefusedPost(429, f"the webhook {name!r} accepts {limit} posts per minute", wait)

    async def _start(
        self, name: str, mapping: MappingConfig | None, headers: Mapping[str, str], body: bytes
    ) -> dict[str, Any]:
        """Accepts the run of a post; returns the response after its COMMIT."""
        visible = {key: value for key, value in headers.items() if key not in _HIDDEN}
        now_ms = self._context.clock.now_ms()
        try:
            payload, order = self._read(name, mapping, body)
            post = posts.WebhookPost(
                name, payload, visible, _event_key(mapping, headers), iso(now_ms)
            )
            request = await anyio.to_thread.run_sync(posts.request, post, order)
        except ValidationError as error:
            raise RefusedPost(400, _faults(error)) from error
        except (BodyError, SkerryError) as error:
            raise RefusedPost(400, str(error)) from error
        signature = mapping.signature if mapping else None
        # The text may differ in a repetition: a template inserts the time, or changes.
        body_key = f"body:{request.run_id}:{sha256(body).hexdigest()}"
        notes = [] if post.event_key.startswith(_RANDOM) else [body_key]
        if signature is not None:
            notes.append(f"{name}:{proof.digest_of(signature, headers).hex()}")

        def write_notes(unit: Unit) -> None:
            for note in notes:
                tables.note(unit, note, request.run_id, now_ms)

        def was_cleared(reader: Reader) -> bool:
            known = tables.has_run(reader, notes, request.run_id)
            return known and runs.find(reader, request.run_id) is None

        # The row of a run is cleared away before the notes of its post expire.
        if await self._context.store.read(was_cleared):
            admission = Admission(str(request.key), AdmissionStatus.FINISHED, 0)
        else:
            admission = await self._accept(request, write_notes, body_key)
        return {
            "ok": True,
            "runId": request.run_id,
            "sessionKey": str(request.key),
            "repeated": admission.status is not AdmissionStatus.ACCEPTED,
        }

    async def _accept(
        self, request: RunRequest, extra_write: Callable[[Unit], object], body_key: str
    ) -> Admission:
        """Accepts a run, and stores its signature and the hash of its body in the same unit.

        Raises:
            RefusedPost: the run was not accepted.
        """
        runs = self._context.internal_runs
        if runs is None:
            raise RefusedPost(503, "this gateway runs no agents")
        try:
            return await runs.dispatch.submit(request, extra_write)
        except tables.ReplayedError as error:
            raise RefusedPost(409, "this signature was used before, by another post") from error
        except KeyReusedError as error:
            if await self._context.store.read(lambda reader: tables.is_noted(reader, body_key)):
                return Admission(str(request.key), AdmissionStatus.IN_FLIGHT, 0)
            message = "the Idempotency-Key belongs to a post with another body"
            raise RefusedPost(409, message) from error
        except (BusyError, StateError) as error:
            raise RefusedPost(503, str(error), {"retry-after": "5"}) from error
        except SkerryError as error:
            raise RefusedPost(400, str(error)) from error

    def _read(self, name: str, mapping: MappingConfig | None, body: bytes) -> tuple[Any, Order]:
        """Returns the payload, and the settings of its run.

        Raises:
            BodyError: the body cannot be used.
            ValidationError: the body has invalid fields.
        """
        config = self._context.config()
        if mapping is not None:
            return payload_of(body), posts.order_of(config, mapping)
        if name == "agent":
            return None, agent_order(config, AgentBody.model_validate_json(body))
        return None, agent_order(config, WakeBody.model_validate_json(body))


def make(context: GatewayContext) -> Webhooks:
    """Returns the object that serves the posts of a gateway."""
    return Webhooks(context)


def _faults(error: ValidationError) -> str:
    """Describes the invalid fields of a body, without their values."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:5])


def _event_key(mapping: MappingConfig | None, headers: Mapping[str, str]) -> str:
    """Returns the key of the event: of a header, else the signature, else random."""
    for header in _EVENT_HEADERS:
        if text := headers.get(header, "").strip():
            return f"key:{text[:_MAX_KEY]}"
    if mapping is not None and mapping.signature is not None:
        return f"signature:{proof.digest_of(mapping.signature, headers).hex()}"
    return f"{_RANDOM}{secrets.token_hex(16)}"


def _json(
    value: Mapping[str, Any], status: int, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(
        msgspec.json.encode(value),
        status,
        {"cache-control": "no-store", **(headers or {})},
        "application/json",
    )
