"""Definition of gateway methods, and the errors with which they refuse requests."""

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Generic, Self, TypeVar

from msgspec import Struct, field
from pydantic import BaseModel, ConfigDict, StringConstraints
from pydantic.alias_generators import to_camel

from skerry.gateway.context import GatewayContext
from skerry.gateway.frames import ErrorCode, ErrorShape, Json
from skerry.gateway.protocol_versions import VERSIONS, Version4
from skerry.model.ids import AgentId, SessionKey, agent_id
from skerry.policy.decide import Actor
from skerry.store import Unit

MAX_TEXT: Final = 1_048_576
NONE: Final[Mapping[str, str]] = MappingProxyType({})

Name = Annotated[
    str, StringConstraints(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]*$")
]
"""A short text without control characters."""
EntryId = Annotated[str, StringConstraints(max_length=8, pattern=r"^[0-9a-f]{8}$")]
"""Id of a message in a transcript."""
Message = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT)]
IdempotencyKey = Annotated[
    str, StringConstraints(min_length=1, max_length=256, pattern=r"^[\x20-\x7e]*$")
]


class Params(BaseModel):
    """Parameters of a method: camelCase on the wire, no unknown keys, no converted values.

    Every property of the published schemas is a field with an effect, or is listed in one of the
    two tables by its wire name, with a sentence for the client. With null, false or an empty value
    it requests nothing and is accepted.

    Validators are built at the first call of a method, so that a start needs none.
    """

    ignored: ClassVar[Mapping[str, str]] = NONE
    """Parameters without effect, reported in `warnings` of the response."""
    refused: ClassVar[Mapping[str, str]] = NONE
    """Unsupported parameters, which would change the outcome, each with the reason for the
    error."""
    usual: ClassVar[Mapping[str, str]] = NONE
    """Values of unsupported parameters that request the default behaviour."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        populate_by_name=False,
        defer_build=True,
    )


class NoParams(Params):
    """No parameters."""


class OnceParams(Params):
    """Parameters of a method with an idempotency key; a repeat has no second effect."""

    idempotency_key: IdempotencyKey | None = None


def no_effect(unit: Unit) -> None:
    """Records no effect: the request has no idempotency key."""


class RefusedError(Exception):
    """The response to a request is an error; `remedy` is in its details as the next step."""

    def __init__(
        self,
        message: str,
        remedy: str = "",
        *,
        code: ErrorCode = ErrorCode.INVALID_REQUEST,
        details: Json = None,
        retryable: bool | None = None,
    ) -> None:
        if remedy:
            details = {**(details or {}), "remedy": remedy}
        self.shape = ErrorShape(code, message, details, retryable)
        self.payload: Json = None
        """Payload that is sent with the error; None for none."""
        super().__init__(message)

    @classmethod
    def of(cls, shape: ErrorShape, payload: Json = None) -> Self:
        """Returns the refusal with this error and payload."""
        refusal = cls(shape.message)
        refusal.shape, refusal.payload = shape, payload
        return refusal


def missing_scope(scope: str, remedy: str = "") -> ErrorShape:
    """Returns the error for a caller without the scope."""
    details: dict[str, Json] = {
        "code": "MISSING_SCOPE",
        "missingScope": scope,
        "requiredScopes": [scope],
    }
    if remedy:
        details["remedy"] = remedy
    return ErrorShape(ErrorCode.FORBIDDEN, f"missing scope: {scope}", details)


class Call(Struct, frozen=True):
    """One request: its client, and the services for its method."""

    context: GatewayContext
    actor: Actor
    """The client as an actor of the policy."""
    scopes: tuple[str, ...]
    protocol: int
    """Protocol version of the client: 3 or 4."""
    connection_id: str
    device_id: str | None
    """The client's paired device; None for a client with the shared secret only."""
    respond: Callable[[Json], None]
    """Sends a first response; the result of the handler is the last one."""
    effect: Callable[[Unit], None] = no_effect
    """Called in the unit of the effect of a method with a key, to store the key."""
    warnings: list[Json] = field(default_factory=list)
    """Warnings in the response; see `warn`."""

    def warn(self, path: str, message: str) -> None:
        """Adds a warning about a property of the request to the answer."""
        self.warnings.append({"path": path, "message": message})

    @property
    def version(self) -> Version4:
        """Returns the encoding of the client's protocol version."""
        return VERSIONS[self.protocol]

    def agent(self, name: str | None) -> AgentId:
        """Returns the id of the configured agent with this name; without one, of the default agent.

        Raises:
            RefusedError: no agent has this id.
        """
        agents = self.context.config().agents
        agent = agent_id(name) if name else agents.default_id
        if agent not in agents.ids:
            raise RefusedError(
                f'unknown agent id "{name}"',
                f"The agents are {', '.join(agents.ids)}.",
                details={"code": "UNKNOWN_AGENT_ID", "agentId": name},
            )
        return agent

    def session_key(self, key: str | None, agent: str | None) -> SessionKey:
        """Returns the session key of a request with a key or an agent; by default the main one.

        Raises:
            InvalidSessionKeyError: the key is invalid, or belongs to another agent.
        """
        return self.context.config().session_key(key, agent)


P = TypeVar("P", bound=BaseModel)
Handler = Callable[[Call, P], Json | Coroutine[Any, Any, Json]]


class Method(Struct, Generic[P], frozen=True):
    """One method. `access.METHODS` or its feature has the need of its caller.

    `handler` returns the payload, or a coroutine of it when it must wait.

    Handlers are called in the order of the requests. Their synchronous part, and the part of their
    coroutine before the first `await`, run in that order.
    """

    name: str
    params: type[P]
    handler: Handler[P]
    waits: bool = False
    """True for a method that answers when a run ends, and needs no resources meanwhile."""
