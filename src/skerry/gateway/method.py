"""Definition of a gateway method, and the errors by which it refuses a request."""

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Generic, Self, TypeVar

from msgspec import Struct, field
from pydantic import BaseModel, ConfigDict, StringConstraints
from pydantic.alias_generators import to_camel

from skerry.gateway.context import GatewayContext
from skerry.gateway.frames import ErrorCode, ErrorShape, Json
from skerry.gateway.protocol_versions import DRESSES, Dress
from skerry.model.origin import Origin
from skerry.model.rights import Rights
from skerry.policy.access import Role
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

    Every property of the published schemas is a field that is heeded, or stands in one of the two
    tables by its name on the wire, with a sentence for the client. With null, false or an empty
    value it asks for nothing, and passes.

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
    """Notes nothing with an effect: its request has no idempotency key."""


class RefusedError(Exception):
    """A request is answered with an error. `payload` is sent beside it where a method has one."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        details: Json = None,
        retryable: bool | None = None,
        payload: Json = None,
    ) -> None:
        self.shape = ErrorShape(code, message, details, retryable)
        self.payload = payload
        super().__init__(message)

    @classmethod
    def of(cls, shape: ErrorShape, payload: Json) -> Self:
        """Returns the refusal with this error and payload."""
        refused = cls(shape.code, shape.message, payload=payload)
        refused.shape = shape
        return refused


def missing_scope(scope: str, remedy: str = "") -> ErrorShape:
    """Returns the error for who lacks a scope."""
    details: dict[str, Json] = {
        "code": "MISSING_SCOPE",
        "missingScope": scope,
        "requiredScopes": [scope],
    }
    if remedy:
        details["remedy"] = remedy
    return ErrorShape(ErrorCode.FORBIDDEN, f"missing scope: {scope}", details)


class Call(Struct, frozen=True):
    """One request: what the method may use, and who asks."""

    context: GatewayContext
    role: Role
    scopes: tuple[str, ...]
    protocol: int
    """The version of the protocol that was agreed with the client: 3 or 4."""
    connection_id: str
    device_id: str | None
    """The paired device that asks; None for a client that showed only the shared secret."""
    respond: Callable[[Json], None]
    """Sends a first response; what the handler returns is the last."""
    effect: Callable[[Unit], None] = no_effect
    """Called in the unit that has the effect of a `once` method, so that its key is used there."""
    warnings: list[Json] = field(default_factory=list)
    """Warnings for the client beside the answer; see `warn`."""

    def warn(self, path: str, message: str) -> None:
        """Tells the client something of a property that it sent."""
        self.warnings.append({"path": path, "message": message})

    @property
    def actor(self) -> Actor:
        """Returns whoever asks."""
        return Actor(Origin.OWNER, role=self.role, scopes=self.scopes, rights=Rights.OWNER)

    @property
    def dress(self) -> Dress:
        """Returns the encoding of the client's protocol version."""
        return DRESSES[self.protocol]


P = TypeVar("P", bound=BaseModel)
Handler = Callable[[Call, P], Json | Coroutine[Any, Any, Json]]


class Method(Struct, Generic[P], frozen=True):
    """One method; `access.METHODS`, or its feature, has what its caller needs.

    `handler` returns the payload, or a coroutine of it where it has to wait.

    Handlers are called in the order of the requests; what they do before they return, and before
    the first `await` of their coroutine, is therefore done in that order too.
    """

    name: str
    params: type[P]
    handler: Handler[P]
    waits: bool = False
    """True when it is answered only when a run ends: it costs nothing meanwhile."""
