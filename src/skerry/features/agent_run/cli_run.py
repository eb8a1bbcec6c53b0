"""`skerry agent`: sends one message and prints the answer."""

import math
import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import anyio

from skerry.cli.failure import FAILED, TIMED_OUT, complain
from skerry.cli.images import attachments
from skerry.cli.render import one_line, plain, show, show_json
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.client.retry import NOTHING_TO_RETRY, RETRY
from skerry.model.errors import ClientError, GatewayRefusedError, GatewayUnreachableError

COMMAND: Final = "skerry agent"
GRACE: Final = 15.0
"""Seconds for the gateway to report a run whose time limit has passed."""
ABORT_SECONDS: Final = 5.0
PAUSE: Final = 1.0
"""Seconds before the next request for a run that is still active."""
DEFAULT_SECONDS: Final = 86_400.0
"""Seconds to wait when the limit of the gateway applies."""
_RETRY_REMEDY: Final = (
    "The gateway may have the message already. When it runs, repeat with --idempotency-key {}:"
    " the message runs once."
)


def run(arguments: Namespace) -> int:
    """Runs `skerry agent`; returns the exit code."""
    text = sys.stdin.read() if arguments.message == "-" else arguments.message
    address = find(os.environ, url=arguments.url, token=arguments.token)
    options = {
        "agentId": arguments.agent,
        "thinking": arguments.thinking,
        "attachments": attachments(arguments.image),
    }

    key = arguments.idempotency_key or str(uuid4())

    async def request_answer() -> dict[str, Any]:
        async with GatewayClient(address) as client:
            request = RequestedRun(
                client,
                text,
                session=arguments.session,
                key=key,
                timeout=arguments.timeout,
                options={name: value for name, value in options.items() if value},
            )
            try:
                return await request.result()
            except GatewayUnreachableError as error:
                if text.strip() != RETRY:
                    error.remedy = _RETRY_REMEDY.format(key)
                raise

    return _report(anyio.run(request_answer), as_json=arguments.json)


@dataclass(slots=True)
class RequestedRun:
    """One requested run; a repeat with the same `key` returns the result of the first request."""

    client: GatewayClient
    text: str
    session: str
    key: str
    timeout: float | None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Additional parameters of the request: agent, thinking, images."""

    async def result(self) -> dict[str, Any]:
        """Returns the last response. Cancelling (Ctrl-C) aborts the run.

        Raises:
            GatewayRefusedError: the run was not accepted.
            GatewayUnreachableError: the connection was lost.
            TimeoutError: the gateway reported no end in time.
        """
        try:
            with anyio.fail_after((self.timeout or DEFAULT_SECONDS) + GRACE):
                if self.text.strip() == RETRY:
                    return await self._retried()
                while (answer := await self._ask())["status"] == "in_flight":
                    # Another request with this key is running: its end is also the end of this one.
                    params = {"runId": self.key, "timeoutMs": 30_000}
                    waited = await self.client.request("agent.wait", params, timeout=60)
                    if waited["status"] == "timeout":
                        # At once, when its end could not be stored: a restart resumes it.
                        await anyio.sleep(PAUSE)
                return answer
        except (anyio.get_cancelled_exc_class(), TimeoutError):
            await self._abort()
            raise

    async def _retried(self) -> dict[str, Any]:
        """Starts the run of the last message again; returns its answer in the form of `agent`."""
        conversation = {"sessionKey": self.session}
        conversation |= {name: self.options[name] for name in ("agentId",) if name in self.options}
        try:
            self.key = (await self.client.request("chat.retry", conversation))["runId"]
        except GatewayRefusedError as refusal:
            if refusal.details_code != NOTHING_TO_RETRY:
                raise
            return {"status": "ok", "result": {"payloads": [{"text": str(refusal)}], "meta": {}}}
        params = {"runId": self.key, "timeoutMs": 30_000}
        while True:
            waited = await self.client.request("agent.wait", params, timeout=60)
            if waited["status"] != "timeout":
                break
        reason = waited.get("stopReason")
        aborted = waited["status"] == "ok" and reason not in {"stop", "length"}
        reply = _part(waited, "terminalReply").get("text") or ""
        return {
            **waited,
            "result": {
                "payloads": [{"text": reply}] if reply else [],
                "meta": {"aborted": aborted, "stopReason": reason},
            },
        }

    async def _ask(self) -> dict[str, Any]:
        params: dict[str, Any] = {
            "message": self.text,
            "sessionKey": self.session,
            "idempotencyKey": self.key,
            **self.options,
        }
        if self.timeout is not None:
            params["timeout"] = math.ceil(self.timeout)  # the wire has whole seconds
        try:
            answer = await self.client.request("agent", params, timeout=None, expect_final=True)
        except GatewayRefusedError as refusal:
            if not isinstance(refusal.payload, dict):
                raise
            failure: dict[str, Any] = {"error": str(refusal), "remedy": refusal.remedy}
            if refusal.retry_after_ms is not None:
                failure["retryAfterMs"] = refusal.retry_after_ms
            return {"status": "error", **refusal.payload, **failure}
        if not isinstance(answer, dict) or "status" not in answer:
            raise GatewayRefusedError("INVALID_RESPONSE", "The response to `agent` has no status.")
        return answer

    async def _abort(self) -> None:
        params = {"sessionKey": self.session, "runId": self.key}
        with anyio.move_on_after(ABORT_SECONDS, shield=True), suppress(ClientError):
            await self.client.request("chat.abort", params, timeout=None)


def _report(answer: dict[str, Any], *, as_json: bool) -> int:
    if as_json:
        show_json(answer)
    else:
        text = "\n\n".join(_texts(answer))
        if text:
            show(plain(text))
    if answer["status"] == "ok" and not _meta(answer).get("aborted"):
        return 0
    late = "timeout" in {answer["status"], _meta(answer).get("stopReason")}
    reason = one_line(str(answer.get("error") or answer.get("summary") or answer["status"]))
    remedy = str(answer.get("remedy", ""))
    if late:
        remedy = "Raise the limit with --timeout."
    elif _meta(answer).get("aborted"):
        remedy = "The run was stopped. Send the message again to get an answer."
    return complain(
        f"The run ended early: {reason}", remedy, COMMAND, TIMED_OUT if late else FAILED
    )


def _texts(answer: dict[str, Any]) -> list[str]:
    """Returns the texts of the reply in the last response."""
    parts = _part(answer, "result").get("payloads") or ()
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return [text for text in texts if isinstance(text, str) and text]


def _meta(answer: dict[str, Any]) -> dict[str, Any]:
    return _part(_part(answer, "result"), "meta")


def _part(tree: dict[str, Any], key: str) -> dict[str, Any]:
    part = tree.get(key)
    return part if isinstance(part, dict) else {}
