"""The checks of a handshake, in their order."""

from typing import Annotated, Any, Literal

import anyio
from msgspec import Struct
from pydantic import Field, ValidationError

from skerry.config.gateway import AuthMode
from skerry.gateway import device_identity, handshake_errors, pairing, shared_secret
from skerry.gateway.context import GatewayContext
from skerry.gateway.frames import PROTOCOLS, TOO_DEEP, Json, Malformed, RequestFrame
from skerry.gateway.handshake_errors import HandshakeError
from skerry.gateway.method import Name, Params
from skerry.gateway.pairing import Paired
from skerry.gateway.peer import ClientPeer
from skerry.gateway.problems import describe
from skerry.gateway.shared_secret import Failures, SecretCheck
from skerry.model.errors import StateError
from skerry.model.origin import Origin
from skerry.model.rights import Rights
from skerry.policy.access import Role
from skerry.policy.decide import Actor
from skerry.store.devices import DeviceInfo

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
    """Program that connects."""

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


class ConnectDeviceParams(Params):
    """A device's identity: its key and its signature."""

    id: Name
    public_key: Name
    signature: Name
    signed_at: Annotated[int, Field(ge=0)]
    nonce: Name


class AuthParams(Params):
    """Credentials of a client: the shared secret, or the token of a paired device."""

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
    permissions: dict[Name, bool] = Field(default_factory=dict[Name, bool], max_length=256)
    computer_use: Any = None
    worker_runs: Annotated[dict[Name, Any], Field(max_length=256)] | None = None
    model_catalog: Annotated[dict[Name, Any], Field(max_length=64)] | None = None
    path_env: Annotated[str, Field(max_length=32_768)] | None = None
    role: Name = "operator"
    scopes: Names | None = None
    device: ConnectDeviceParams | None = None
    auth: AuthParams = AuthParams()
    locale: Annotated[str, Field(max_length=128)] | None = None
    user_agent: Annotated[str, Field(max_length=1024)] | None = None


class Admitted(Struct, frozen=True):
    """An admitted client."""

    request_id: str
    params: ConnectParams
    protocol: int
    """The agreed version of the protocol: 3 or 4."""
    role: Role
    scopes: tuple[str, ...]
    device: Paired | None
    """The paired device; None for a client with the shared secret only."""
    actor: Actor
    """The client as an actor of the policy."""


class Handshake(Struct, frozen=True):
    """One handshake: its challenge, and the services that check it."""

    context: GatewayContext
    failures: Failures
    peer: ClientPeer
    nonce: str
    """Nonce of the challenge that the client received."""


async def admit(frame: RequestFrame | Malformed | None, handshake: Handshake) -> Admitted:
    """Returns the client that the first frame introduces.

    Raises:
        HandshakeError: the client is not admitted.
    """
    if frame is None or frame == TOO_DEEP:
        raise HandshakeError(1000, "")
    if isinstance(frame, Malformed):
        raise HandshakeError(1008, "invalid request frame")
    try:
        return await _admit(frame, handshake)
    except StateError:
        error = handshake_errors.not_ready(["state"])
        error.request_id = frame.id
        raise error from None
    except HandshakeError as error:
        error.request_id = frame.id
        raise


async def _admit(frame: RequestFrame, handshake: Handshake) -> Admitted:
    if frame.method != "connect":
        raise handshake_errors.invalid("invalid handshake: first request must be connect")
    try:
        params = ConnectParams.model_validate_json(bytes(frame.params) or b"{}")
    except ValidationError as error:
        raise handshake_errors.invalid(f"invalid connect params: {describe(error)}") from None
    if not handshake.context.health.ready:
        raise handshake_errors.not_ready(handshake.context.health.failing)
    protocol = _agree(params)
    role = _role(params)
    if seconds := handshake.failures.locked(handshake.peer, anyio.current_time()):
        raise handshake_errors.locked_out(seconds)
    gateway = handshake.context.config().gateway
    secret = shared_secret.check_secret(gateway.auth, params.auth.token, params.auth.password)
    scopes = shared_secret.operator_scopes(params.scopes) if role is Role.OPERATOR else ()
    if params.device is None:
        _check_alone(role, secret, handshake, _is_named(params, gateway.auth.mode, protocol))
        return Admitted(frame.id, params, protocol, role, scopes, None, _actor(role, scopes))
    paired = await _pair(params, params.device, (role, scopes), secret, handshake)
    actor = _actor(role, paired.scopes)
    return Admitted(frame.id, params, protocol, role, paired.scopes, paired, actor)


def _actor(role: Role, scopes: tuple[str, ...]) -> Actor:
    return Actor(Origin.OWNER, role=role, scopes=scopes, rights=Rights.OWNER)


def _agree(params: ConnectParams) -> int:
    """Returns the highest protocol version that both sides support."""
    for version in PROTOCOLS:
        if params.min_protocol <= version <= params.max_protocol:
            return version
    raise handshake_errors.wrong_protocol(params.min_protocol, params.max_protocol)


def _role(params: ConnectParams) -> Role:
    try:
        return Role(params.role)
    except ValueError:
        raise handshake_errors.invalid("invalid role") from None


def _is_named(params: ConnectParams, mode: AuthMode, protocol: int) -> bool:
    """Returns True when a wrong secret is reported as such; version 3 calls it a missing token."""
    return protocol > 3 or mode is not AuthMode.TOKEN or bool(params.auth.token)  # noqa: PLR2004 - the version


def _check_alone(role: Role, secret: SecretCheck, handshake: Handshake, is_named: bool) -> None:  # noqa: FBT001 - of one caller
    """Checks a client without a device: it needs the secret, role operator, and this machine."""
    gateway = handshake.context.config().gateway
    if secret is SecretCheck.WRONG:
        raise handshake_errors.unauthorized(
            gateway.auth.mode, has_credential=is_named, is_guess=True
        )
    is_exempt = handshake.peer.local or gateway.control_ui.dangerously_disable_device_auth
    if secret is SecretCheck.MISSING or role is not Role.OPERATOR or not is_exempt:
        raise handshake_errors.no_device()


async def _pair(
    params: ConnectParams,
    device: ConnectDeviceParams,
    requested: tuple[Role, tuple[str, ...]],
    secret: SecretCheck,
    handshake: Handshake,
) -> Paired:
    """Pairs the device; returns it with its scopes."""
    credentials, (role, scopes) = params.auth, requested
    mode = handshake.context.config().gateway.auth.mode
    token = credentials.device_token or credentials.token
    if secret is not SecretCheck.RIGHT and not token:
        raise handshake_errors.unauthorized(mode, has_credential=secret is SecretCheck.WRONG)
    key = device_identity.key(device.id, device.public_key)
    claim = device_identity.Claim(
        device_id=device.id,
        client_id=params.client.id,
        client_mode=params.client.mode,
        role=params.role,
        scopes=params.scopes or [],
        signed_at=device.signed_at,
        token=credentials.token or credentials.device_token or credentials.bootstrap_token or "",
        nonce=device.nonce,
        platform=params.client.platform,
        device_family=params.client.device_family or "",
    )
    now = handshake.context.clock.now_ms()
    await device_identity.check(claim, key, device.signature, handshake.nonce, now)
    connecting = pairing.ConnectingDevice(
        device_id=device.id.lower(),
        public_key=device.public_key,
        role=role,
        scopes=scopes,
        about=DeviceInfo(
            params.client.id,
            params.client.mode,
            params.client.platform,
            handshake.peer.display_address,
            params.client.display_name,
            params.client.device_family,
        ),
        token=token,
        by_secret=secret is SecretCheck.RIGHT,
        local=handshake.peer.local,
    )
    outcome = await pairing.pair(handshake.context, connecting)
    match outcome:
        case Paired():
            return outcome
        case pairing.PendingApproval(request, revoked):
            raise handshake_errors.not_paired(request, revoked=revoked)
        case pairing.WrongToken(known, revoked) if credentials.device_token:
            raise handshake_errors.wrong_device_token(revoked=revoked)
        case pairing.WrongToken(known):
            raise handshake_errors.unauthorized(mode, has_credential=True, device_may_retry=known)


def introduction(params: ConnectParams, address: str) -> dict[str, Json]:
    """Returns the description that a node sent, for `node.list`."""
    client = params.client
    description = {
        "displayName": client.display_name,
        "platform": client.platform,
        "version": client.version,
        "deviceFamily": client.device_family,
        "modelIdentifier": client.model_identifier,
        "remoteIp": address,
        "caps": params.caps,
        "commands": params.commands,
        "permissions": params.permissions or None,
        "pathEnv": params.path_env,
    }
    return {key: value for key, value in description.items() if value is not None}
