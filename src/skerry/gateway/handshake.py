"""What must be true before a client is let in, in the order in which it is checked."""

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from skerry.gateway import auth
from skerry.gateway.access import Role
from skerry.gateway.context import GatewayContext
from skerry.gateway.frames import (
    PROTOCOL,
    PROTOCOLS,
    ErrorCode,
    ErrorShape,
    Json,
    Malformed,
    RequestFrame,
)
from skerry.gateway.method import Name, Params
from skerry.gateway.problems import describe

_PROBE_PROTOCOL: Final = 3
_STARTING: Final = 1013
_RETRY_MS: Final = 500

Secret = Annotated[str, Field(max_length=4096)]
Names = Annotated[list[Name], Field(max_length=128)]

ClientId = Literal[
    "webchat-ui",
    "openclaw-control-ui",
    "openclaw-browser-copilot",
    "openclaw-tui",
    "webchat",
    "cli",
    "gateway-client",
    "openclaw-macos",
    "openclaw-linux",
    "openclaw-ios",
    "openclaw-watchos",
    "openclaw-android",
    "node-host",
    "openclaw-worker",
    "test",
    "fingerprint",
    "openclaw-probe",
]
ClientMode = Literal["webchat", "cli", "ui", "backend", "node", "worker", "probe", "test"]


class ClientParams(Params):
    """Which program connects."""

    id: ClientId
    version: Name
    platform: Name
    mode: ClientMode
    display_name: Name | None = None
    build_id: Annotated[Name, Field(max_length=96)] | None = None
    device_family: Name | None = None
    model_identifier: Name | None = None
    time_zone: Annotated[Name, Field(max_length=64)] | None = None
    instance_id: Name | None = None


class DeviceParams(Params):
    """A device's identity. It grants nothing: there is no pairing yet."""

    id: Name
    public_key: Name
    signature: Name
    signed_at: Annotated[int, Field(ge=0)]
    nonce: Name


class AuthParams(Params):
    """What a client shows to be let in; only the token counts."""

    token: Secret | None = None
    bootstrap_token: Secret | None = None
    device_token: Secret | None = None
    password: Secret | None = None
    approval_runtime_token: Secret | None = None
    agent_runtime_identity_token: Secret | None = None


class ConnectParams(Params):
    """Parameters of `connect`."""

    min_protocol: Annotated[int, Field(ge=1)]
    max_protocol: Annotated[int, Field(ge=1)]
    client: ClientParams
    caps: Names = Field(default_factory=list[Name])
    commands: Names = Field(default_factory=list[Name])
    permissions: dict[str, bool] = Field(default_factory=dict[str, bool])
    computer_use: Any = None
    worker_runs: dict[str, Any] | None = None
    path_env: Annotated[str, Field(max_length=32_768)] | None = None
    role: Name = "operator"
    scopes: Names | None = None
    device: DeviceParams | None = None
    auth: AuthParams = AuthParams()
    locale: Annotated[str, Field(max_length=128)] | None = None
    user_agent: Annotated[str, Field(max_length=1024)] | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """A client that is let in."""

    request_id: str
    params: ConnectParams
    protocol: int
    """The agreed version of the protocol: 3 or 4."""
    role: Role
    scopes: tuple[str, ...]
    device_id: str | None


class HandshakeError(Exception):
    """A client is not let in: which close code, which reason, and which response before it."""

    def __init__(
        self,
        close_code: int,
        reason: str,
        *,
        request_id: Json = None,
        shape: ErrorShape | None = None,
        is_guess: bool = False,
    ) -> None:
        self.close_code = close_code
        self.reason = reason
        self.request_id = request_id
        self.shape = shape
        self.is_guess = is_guess
        """Whether it may be an attempt to find the token, and is slowed down."""
        super().__init__(reason)


def admit(frame: RequestFrame | Malformed | None, context: GatewayContext) -> Admitted:
    """Return the client that the first frame introduces.

    Raises:
        HandshakeError: it is not let in.
    """
    if frame is None:
        raise HandshakeError(1000, "")
    if isinstance(frame, Malformed):
        raise HandshakeError(1008, "invalid request frame")
    try:
        return _admit(frame, context)
    except HandshakeError as error:
        error.request_id = frame.id
        raise


def _admit(frame: RequestFrame, context: GatewayContext) -> Admitted:
    if frame.method != "connect":
        raise _invalid("invalid handshake: first request must be connect")
    try:
        params = ConnectParams.model_validate_json(bytes(frame.params) or b"{}")
    except ValidationError as error:
        raise _invalid(f"invalid connect params: {describe(error)}") from None
    if not context.health.ready:
        raise _not_ready(context.health.failing)
    protocol = _agree(params)
    if params.role != Role.OPERATOR:
        raise _invalid("invalid role")
    if context.token is not None:
        _check_token(params, context.token)
    _check_device(params)
    scopes = auth.grant(params.scopes)
    return Admitted(frame.id, params, protocol, Role.OPERATOR, scopes, device_id=None)


def _agree(params: ConnectParams) -> int:
    """Return the version of the protocol to speak: the highest that both sides know."""
    for version in PROTOCOLS:
        if params.min_protocol <= version <= params.max_protocol:
            return version
    raise _wrong_protocol(params)


def _check_token(params: ConnectParams, expected: str) -> None:
    given = params.auth.token
    if given:
        if not auth.same_token(expected, given):
            raise _unauthorized("mismatch", is_guess=True)
    elif params.device is not None:
        raise _unauthorized("missing", is_guess=False)
    else:
        raise HandshakeError(
            1008,
            "device identity required",
            shape=ErrorShape(
                ErrorCode.NOT_PAIRED,
                "device identity required",
                {"code": "DEVICE_IDENTITY_REQUIRED"},
            ),
        )


def _check_device(params: ConnectParams) -> None:
    """Refuse a device whose id is not the hash of its key."""
    device = params.device
    if device is None:
        return
    try:
        padded = device.public_key + "=" * (-len(device.public_key) % 4)
        key = base64.b64decode(padded, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if hashlib.sha256(key).hexdigest() != device.id.lower():
        raise _invalid(
            "device identity mismatch",
            {"code": "DEVICE_AUTH_DEVICE_ID_MISMATCH", "reason": "device-id-mismatch"},
        )


def _invalid(message: str, details: Json = None) -> HandshakeError:
    return HandshakeError(
        1008, message, shape=ErrorShape(ErrorCode.INVALID_REQUEST, message, details)
    )


def _unauthorized(what: str, *, is_guess: bool) -> HandshakeError:
    message = f"unauthorized: gateway token {what} (it is gateway.auth.token in skerry.json)"
    details = {
        "code": f"AUTH_TOKEN_{what.upper()}",
        "authReason": f"token_{what}",
        "canRetryWithDeviceToken": False,
        "recommendedNextStep": "update_auth_credentials",
    }
    shape = ErrorShape(ErrorCode.INVALID_REQUEST, message, details)
    return HandshakeError(1008, message, shape=shape, is_guess=is_guess)


def _wrong_protocol(params: ConnectParams) -> HandshakeError:
    details = {
        "code": "PROTOCOL_MISMATCH",
        "clientMinProtocol": params.min_protocol,
        "clientMaxProtocol": params.max_protocol,
        "expectedProtocol": PROTOCOL,
        "minimumProbeProtocol": _PROBE_PROTOCOL,
    }
    shape = ErrorShape(ErrorCode.INVALID_REQUEST, "protocol mismatch", details)
    return HandshakeError(1002, "protocol mismatch", shape=shape)


def _not_ready(failing: list[str]) -> HandshakeError:
    shape = ErrorShape(
        ErrorCode.UNAVAILABLE,
        f"gateway not ready ({', '.join(failing)}); retry shortly",
        {"reason": "startup-sidecars"},
        retryable=True,
        retry_after_ms=_RETRY_MS,
    )
    return HandshakeError(_STARTING, "gateway starting", shape=shape)
