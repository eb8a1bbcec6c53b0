"""`skerry agent`: one message, one answer."""

import math
import os
import sys
from argparse import Namespace
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import anyio

from skerry.cli.failure import FAILED, TIMED_OUT, complain
from skerry.cli.render import plain, show, show_json
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.model.errors import ClientError, GatewayRefusedError

GRACE: Final = 15.0
"""Seconds that the gateway has to report a run that ran out of time by itself."""
ABORT_SECONDS: Final = 5.0
DEFAULT_SECONDS: Final = 86_400.0
"""How long to wait where the gateway's own limit decides."""


def run(arguments: Namespace) -> int:
    """Run `skerry agent`; return the exit code."""
    text = sys.stdin.read() if arguments.message == "-" else arguments.message
    address = find(os.environ, url=arguments.url, token=arguments.token)

    async def once() -> dict[str, Any]:
        async with GatewayClient(address) as client:
            return await Run(
                client,
                text,
                session=arguments.session,
                key=arguments.idempotency_key or str(uuid4()),
                timeout=arguments.timeout,
            ).result()

    return _report(anyio.run(once), as_json=arguments.json)


@dataclass(slots=True)
class Run:
    """One run asked for through a gateway; `key` makes a repeat give the first one's result."""

    client: GatewayClient
    text: str
    session: str
    key: str
    timeout: float | None
    _accepted: dict[str, Any] = field(default_factory=dict, init=False)

    async def result(self) -> dict[str, Any]:
        """Return the last response. Cancelling (Ctrl-C) aborts the run.

        Raises:
            GatewayRefusedError: it was not accepted, or it failed.
            GatewayUnreachableError: the connection was lost.
            TimeoutError: the gateway reported no end in time.
        """
        try:
            with anyio.fail_after((self.timeout or DEFAULT_SECONDS) + GRACE):
                while (answer := await self._ask())["status"] == "in_flight":
                    # Someone else's request with this key runs: its end is ours too.
                    params = {"runId": self.key, "timeoutMs": 30_000}
                    await self.client.request("agent.wait", params, timeout=60)
                return answer
        except (anyio.get_cancelled_exc_class(), TimeoutError):
            await self._abort()
            raise

    async def _ask(self) -> dict[str, Any]:
        params: dict[str, Any] = {
            "message": self.text,
            "sessionKey": self.session,
            "idempotencyKey": self.key,
        }
        if self.timeout is not None:
            params["timeout"] = math.ceil(self.timeout)  # the wire has whole seconds
        answer = await self.client.request(
            "agent", params, timeout=None, on_accepted=self._accepted.update
        )
        if not isinstance(answer, dict) or not isinstance(answer.get("status"), str):
            raise GatewayRefusedError("INVALID_RESPONSE", "the answer to `agent` has no status")
        return answer

    async def _abort(self) -> None:
        if not self._accepted:
            return
        params = {"sessionKey": self._accepted.get("sessionKey", self.session), "runId": self.key}
        with anyio.move_on_after(ABORT_SECONDS, shield=True), suppress(ClientError):
            await self.client.request("chat.abort", params, timeout=None)


def _report(answer: dict[str, Any], *, as_json: bool) -> int:
    status = answer["status"]
    if as_json:
        show_json(answer)
    else:
        text = "\n\n".join(payloads(answer))
        if text:
            show(plain(text))
    if status == "ok":
        return 0
    code = TIMED_OUT if status == "timeout" else FAILED
    reason = str(answer.get("error") or answer.get("summary") or status)
    return complain(f"The run ended as {status}: {reason}", "", "skerry agent", code)


def payloads(answer: dict[str, Any]) -> list[str]:
    """Return the texts of the reply that the last response to `agent` carries."""
    result = answer.get("result")
    parts = result.get("payloads") if isinstance(result, dict) else None
    texts = (part.get("text") for part in parts or () if isinstance(part, dict))
    return [text for text in texts if isinstance(text, str) and text]
