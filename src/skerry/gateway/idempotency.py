"""Executes a request with an idempotency key once; a repeat gets the first response.

The key is written in the unit of the effect, so that after a crash both exist or neither. Runs need
no key: the id of a run is its key. Nor do methods that detect a repeat themselves (`config.*` by
the hash of the file, approvals of devices by their request).
"""

import hashlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from skerry.gateway.context import InFlight
from skerry.gateway.frames import ErrorCode, Json
from skerry.gateway.method import Call, Handler, OnceParams, RefusedError, no_effect
from skerry.model.errors import KeyReusedError
from skerry.store import Unit, idempotency_keys

P = TypeVar("P", bound=OnceParams)


def once(
    method: str, handler: Handler[P], *, first: bool = False, joins: bool = False
) -> Handler[P]:
    """Returns the handler with a check of the request's key; without a key it is called directly.

    Args:
        method: Name of the method; a key is unique for one method.
        handler: Calls `call.effect(unit)` in the unit of its effect.
        first: True to store the key before the call, for a handler whose effect is not in the
            store; when the handler raises, it had no effect.
        joins: True to let a concurrent repeat wait for the first response; False to refuse it.

    """

    def guarded(call: Call, params: P) -> Json | Coroutine[Any, Any, Json]:
        if params.idempotency_key is None:
            return handler(call, params)
        return _IdempotentHandler(method, handler, first, joins).carry_out(
            call, params, params.idempotency_key
        )

    return guarded


class _IdempotentHandler:
    """Handler of a method with idempotency keys."""

    def __init__(self, method: str, handler: Callable[..., Any], first: bool, joins: bool) -> None:  # noqa: FBT001 - private
        self._method = method
        self._handler = handler
        self._first = first
        self._joins = joins

    async def carry_out(self, call: Call, params: OnceParams, key: str) -> Json:
        content = params.model_dump_json(exclude={"idempotency_key"}).encode()
        digest = hashlib.blake2b(content, digest_size=16).digest()
        in_flight, name = call.context.in_flight, (self._method, key)
        if (first := in_flight.get(name)) is not None:
            _check(first.digest == digest, key)
            if not self._joins:
                raise self._refused("is being carried out", "IN_FLIGHT", retryable=True)
            await first.done.wait()
            if first.refusal is not None:
                raise first.refusal
            return await self.carry_out(call, params, key)
        running = in_flight[name] = InFlight(digest)
        try:
            return await self._carry_out(call, params, key, digest)
        except RefusedError as error:
            running.refusal = error
            raise
        finally:
            del in_flight[name]
            running.done.set()

    async def _carry_out(self, call: Call, params: OnceParams, key: str, digest: bytes) -> Json:
        store, name = call.context.store, (self._method, key)
        recorded = await store.read(lambda reader: idempotency_keys.find(reader, *name))
        if recorded is not None:
            _check(recorded.digest == digest, key)
            return self._repeated(recorded)
        effect = _using(*name, digest)
        if self._first:
            await store.write(effect)
            effect = no_effect
        try:
            answer = await self._handle(replace(call, effect=effect), params)
        except Exception:
            if self._first:
                await store.write(lambda unit: idempotency_keys.free(unit, *name))
            raise
        encoded = msgspec.json.encode(answer)
        await store.write(lambda unit: idempotency_keys.answer(unit, *name, encoded))
        return answer

    async def _handle(self, call: Call, params: OnceParams) -> Json:
        answer = self._handler(call, params)
        return await answer if isinstance(answer, Coroutine) else answer

    def _repeated(self, recorded: idempotency_keys.UsedKey) -> Json:
        """Returns the answer of the first request."""
        if recorded.answer is not None:
            return Raw(recorded.answer)
        outcome = "may have been" if self._first else "was"
        raise self._refused(f"{outcome} carried out, and its answer was lost", "ANSWER_LOST")

    def _refused(self, outcome: str, code: str, *, retryable: bool = False) -> RefusedError:
        message = f"{self._method} with this idempotency key {outcome}"
        details = {"code": code}
        return RefusedError(
            message, code=ErrorCode.UNAVAILABLE, details=details, retryable=retryable
        )


def _check(same: bool, key: str) -> None:  # noqa: FBT001 - private
    if not same:
        raise KeyReusedError(key)


def _using(method: str, key: str, digest: bytes) -> Callable[[Unit], None]:
    return lambda unit: idempotency_keys.use(unit, method, key, digest)
