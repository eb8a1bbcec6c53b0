"""Starts the run of a request: its id, its conversation with earlier messages, its admission."""

import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hashlib import blake2b, sha256
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.features.openai_api import api_sessions, turns
from skerry.features.openai_api.api_errors import ApiError, refusal_of
from skerry.features.openai_api.responses_body import unknown_response
from skerry.gateway import attachments
from skerry.gateway.context import GatewayContext
from skerry.gateway.method import RefusedError
from skerry.hooks.events import RunContext
from skerry.model.errors import (
    KeyReusedError,
    ModelUnavailableError,
    SkerryError,
    UnconfiguredAgentError,
)
from skerry.model.ids import AgentId, RunId, SessionId, SessionKey
from skerry.model.origin import Origin
from skerry.model.rights import Rights
from skerry.model.run import Admission, RunRequest, RunResult
from skerry.model.thinking import ThinkingLevel
from skerry.policy.access import READ, WRITE
from skerry.runtime.run_hooks import TranscriptHooks
from skerry.sessions import session_hooks
from skerry.store import Reader, Unit, idempotency_keys, runs, sessions

METHOD: Final = "http.openai"
"""Method of the idempotency keys of this API."""
MAX_KEY: Final = 256
_WINDOW: Final = 32_000
"""Assumed window of the model, in tokens, while no model can be chosen."""


class RunIdentity(Struct, frozen=True):
    """Id of the run of a request, and the digest of the request."""

    run_id: RunId
    key: str
    """The Idempotency-Key; empty without one."""
    digest: bytes


def identity(given: Mapping[str, str], path: str, body: bytes) -> RunIdentity:
    """Returns the identity of a request; without an Idempotency-Key each request is another run.

    Raises:
        ApiError: 400, the key is too long.
    """
    key = given.get("idempotency-key", "").strip()
    if len(key) > MAX_KEY:
        raise ApiError(400, f"The Idempotency-Key has more than {MAX_KEY} characters.")
    asked = "\0".join((path, *(given.get(name, "") for name in _MEANT)))
    digest = blake2b(asked.encode() + b"\0" + body, digest_size=16).digest()
    if not key:
        return RunIdentity(RunId(f"openai-{uuid.uuid4().hex}"), "", digest)
    return RunIdentity(RunId(f"openai-{sha256(key.encode()).hexdigest()[:40]}"), key, digest)


_MEANT: Final = (*api_sessions.KEY_HEADERS, *api_sessions.AGENT_HEADERS)
"""Headers that are part of a request."""


def headers(run: RunRequest, admission: Admission) -> dict[str, str]:
    """Returns the headers of a response that name the run and its conversation."""
    key = str(run.key)
    named = {"x-skerry-session-key": key} if key.isascii() else {}
    repeated = "false" if admission.result is None else "true"
    return {"x-skerry-run-id": run.run_id, "x-skerry-repeated": repeated, **named}


class ApiRequest(Struct, frozen=True):
    """A request for an answer, in any form of the API."""

    identity: RunIdentity
    agent: AgentId | None
    """None for the default agent, or the one of the session key."""
    session: str
    """Session key in a header, or empty."""
    user: str | None
    system: str
    """Text of the system messages."""
    prompt: turns.ApiPrompt
    thinking: ThinkingLevel | None = None


class ApiRuns:
    """Starts the runs of requests."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    def request(self, asked: ApiRequest) -> RunRequest:
        """Returns the run of a request: the owner's, without rights to give commands.

        Raises:
            ApiError: the session or the system message cannot be used.
        """
        if len(asked.system) > turns.MAX_SYSTEM:
            message = f"The system messages have more than {turns.MAX_SYSTEM} characters."
            raise ApiError(400, message, param="messages", code="string_above_max_length")
        run = self._run(asked.identity, asked.agent, asked.session, asked.user)
        return replace(
            run,
            text=asked.prompt.text,
            images=asked.prompt.images,
            extra_system_prompt=asked.system,
            thinking=asked.thinking,
        )

    def tool_request(self, used: RunIdentity, agent: AgentId | None, session: str) -> RunRequest:
        """Returns the run for a call of a tool, without the call.

        Raises:
            ApiError: the session cannot be used.
        """
        return self._run(used, agent, session, None)

    def _run(
        self, used: RunIdentity, agent: AgentId | None, session: str, user: str | None
    ) -> RunRequest:
        config, run_id = self._context.config(), used.run_id
        key = api_sessions.session_of(config, session, agent, user, run_id)
        if key.agent not in config.agents.ids:
            raise refusal_of(UnconfiguredAgentError(key.agent, config.agents.ids))
        scopes = (READ, WRITE)
        return RunRequest(run_id, key, "", origin=Origin.OWNER, rights=Rights.NONE, scopes=scopes)

    async def session_of(self, run_id: RunId) -> str:
        """Returns the session key of an earlier run.

        Raises:
            ApiError: 404, the gateway has no such run, or no conversation of it.
        """

        def read(reader: Reader) -> str | None:
            stored = runs.find(reader, run_id)
            if stored is None:
                return None
            key = stored.session_key if isinstance(stored, RunResult) else str(stored.request.key)
            return None if sessions.find(reader, key) is None else key

        key = await self._context.store.read(read)
        if key is None:
            raise unknown_response()
        return key

    async def submit(self, asked: ApiRequest, request: RunRequest) -> Admission:
        """Accepts the run; a repeated Idempotency-Key returns the state of the first run.

        Raises:
            ApiError: the run was not accepted.
        """
        return await self.admit(asked.identity, request, partial(self._prepare, asked, request))

    async def admit(
        self,
        used: RunIdentity,
        request: RunRequest,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> Admission:
        """Accepts a run after `prepare`; a repeated key returns the state of the first run.

        Raises:
            ApiError: the run was not accepted.
        """
        internal = self._context.internal_runs
        if internal is None:
            raise ApiError(503, "This gateway runs no agents.")

        def note(unit: Unit) -> None:
            if used.key and idempotency_keys.find(unit, METHOD, used.run_id) is None:
                idempotency_keys.use(unit, METHOD, used.run_id, used.digest)

        try:
            await self._check_key(used)
            if prepare is not None:
                await prepare()
            return await internal.dispatch.submit(request, note)
        except RefusedError as error:
            raise ApiError(400, str(error), param="messages", code="unsupported_image") from None
        except SkerryError as error:
            raise refusal_of(error) from None

    async def _check_key(self, used: RunIdentity) -> None:
        """Raises KeyReusedError if the Idempotency-Key belongs to another request."""
        if not used.key:
            return
        known = await self._context.store.read(
            lambda reader: idempotency_keys.find(reader, METHOD, used.run_id)
        )
        if known is not None and known.digest != used.digest:
            raise KeyReusedError(used.key)

    async def _prepare(self, asked: ApiRequest, request: RunRequest) -> None:
        """Checks the images, and writes earlier messages into the conversation.

        Raises:
            RefusedError: the model accepts no images.
        """
        history = asked.prompt.history
        if request.images or any(turn.images for turn in history):
            await attachments.check_model(self._context, request.key.agent)
        if history:
            await self._add_history(request.key, history)

    async def _add_history(self, key: SessionKey, history: tuple[turns.SpokenTurn, ...]) -> None:
        """Writes earlier messages into the conversation, if that has no messages yet."""
        context, now = self._context, self._context.clock.now_ms()
        if context.dispatcher.active(key) or not await self._is_new(key):
            return
        fitting = turns.fitting(history, await self._window(key.agent))
        entries = turns.entries(fitting, now)
        new_id = SessionId(str(uuid.uuid4()))
        workspace = context.config().workspace(key.agent)
        about = RunContext(
            run_id=RunId(""),
            agent_id=key.agent,
            session_key=str(key),
            session_id=new_id,
            workspace=workspace,
        )
        kept = await TranscriptHooks(context.hooks).entries(entries, about)

        def write(unit: Unit) -> bool:
            if not kept or sessions.present(unit, key) is not None:
                return False
            sessions.begin(unit, key, new_id, now)
            sessions.append(unit, new_id, 0, "", kept, now, person_wrote_at=now)
            return True

        async def begin() -> None:
            if await context.store.write(write):
                session_hooks.start(context.hooks, key, new_id)

        await context.dispatcher.run_exclusive(key, begin)

    async def _is_new(self, key: SessionKey) -> bool:
        return await self._context.store.read(lambda reader: sessions.present(reader, key)) is None

    async def _window(self, agent: AgentId) -> int:
        """Returns the window of the agent's model, in tokens."""
        reference = self._context.config().primary_model(agent)
        try:
            _, model = await self._context.models.choose(reference)
        except ModelUnavailableError:
            return _WINDOW  # the run reports it
        return model.context_window
