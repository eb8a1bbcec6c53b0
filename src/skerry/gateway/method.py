"""Definition of a gateway method, and the errors by which it refuses a request."""

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
"""A short text without control characters, so that it can be shown anywhere."""
EntryId = Annotated[str, StringConstraints(max_length=8, pattern=r"^[0-9a-f]{8}$")]
"""The name of a message of a transcript."""
Message = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT)]
IdempotencyKey = Annotated[
    str, StringConstraints(min_length=1, max_length=256, pattern=r"^[\x20-\x7e]*$")
]


class Params(BaseModel):
    """Parameters of a method: camelCase on the wire, nothing unknown, no value converted.

    Every property of the published schemas is a field that has an effect, or is listed in one of
    the two tables by its name on the wire, with a sentence for the client. With null, false or an
    empty value it requests nothing, and passes.

    The validator of each is built when the method is first called: a start needs none of them.
    """

    ignored: ClassVar[Mapping[str, str]] = NONE
    """Parameters accepted without effect: reported in `warnings` of the answer."""
    refused: ClassVar[Mapping[str, str]] = NONE
    """Parameters that would change the outcome and are unsupported, with the reason for the
    error."""
    usual: ClassVar[Mapping[str, str]] = NONE
    """Values of those that request the default behaviour."""

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
    """Parameters of a method with an effect; a repeat with the same key has no second one."""

    idempotency_key: IdempotencyKey | None = None


def no_effect(unit: Unit) -> None:
    """Records nothing with an effect: its request has no idempotency key."""


class RefusedError(Exception):
    """The answer to a request is an error. `remedy` goes into the details, as the next step."""

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
        """Sent beside the error where a method has one."""
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
    """One request: the services that the method may use, and the client that sent it."""

    context: GatewayContext
    actor: Actor
    """The client, as the policy sees it."""
    scopes: tuple[str, ...]
    protocol: int
    """The version of the protocol that was agreed with the client: 3 or 4."""
    connection_id: str
    device_id: str | None
    """The client's paired device; None for a client that presented only the shared secret."""
    respond: Callable[[Json], None]
    """Sends a first response; what the handler returns is the last."""
    effect: Callable[[Unit], None] = no_effect
    """Called in the unit that has the effect of a `once` method, so that its key is used there."""
    warnings: list[Json] = field(default_factory=list)
    """Warnings for the client beside the answer; see `warn`."""

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
        """Returns the key that a request names by key or agent; without both, the main one.

        Raises:
            InvalidSessionKeyError: the key does not parse, or belongs to another agent.
        """
        return self.context.config().session_key(key, agent)


P = TypeVar("P", bound=BaseModel)
Handler = Callable[[Call, P], Json | Coroutine[Any, Any, Json]]


class Method(Struct, Generic[P], frozen=True):
    """One method; `access.METHODS`, or its feature, has what its caller needs.

    `handler` returns the payload, or a coroutine of it where it has to wait.

    Handlers are called in the order of the requests; what they do before they return, and before
    the first `await` of their coroutine, happens in that order too.
    """

    name: str
    params: type[P]
    handler: Handler[P]
    waits: bool = False
    """True when it is answered only when a run ends: it costs nothing meanwhile."""
