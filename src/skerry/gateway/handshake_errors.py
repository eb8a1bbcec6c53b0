"""Errors of a refused handshake: the error frame, and the close code."""

from collections.abc import Iterable
from typing import Final

from skerry.config.gateway import AuthMode
from skerry.gateway.frames import PROTOCOL, PROTOCOLS, ErrorCode, ErrorShape, Json
from skerry.store.devices import DeviceRequest

_STARTING: Final = 1013
_RETRY_MS: Final = 500
_REFUSED: Final = 1008
_WRONG_PROTOCOL: Final = 1002


class HandshakeError(Exception):
    """A refused client: the response, the close code and its reason."""

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
        """True when it may be an attempt to guess the token, and is delayed."""
        super().__init__(reason)


def invalid(message: str, details: Json = None) -> HandshakeError:
    """Returns the refusal of an invalid `connect`."""
    shape = ErrorShape(ErrorCode.INVALID_REQUEST, message, details)
    return HandshakeError(_REFUSED, message, shape=shape)


def wrong_protocol(lowest: int, highest: int) -> HandshakeError:
    """Returns the refusal of a client without a supported version."""
    details = {
        "code": "PROTOCOL_MISMATCH",
        "clientMinProtocol": lowest,
        "clientMaxProtocol": highest,
        "expectedProtocol": PROTOCOL,
        "minimumProbeProtocol": min(PROTOCOLS),
    }
    shape = ErrorShape(ErrorCode.INVALID_REQUEST, "protocol mismatch", details)
    return HandshakeError(_WRONG_PROTOCOL, "protocol mismatch", shape=shape)


def not_ready(failing: Iterable[str]) -> HandshakeError:
    """Returns the refusal of a gateway that is starting, stopping or failing."""
    shape = ErrorShape(
        ErrorCode.UNAVAILABLE,
        f"gateway not ready ({', '.join(failing)}); retry shortly",
        {"reason": "startup-sidecars"},
        retryable=True,
        retry_after_ms=_RETRY_MS,
    )
    return HandshakeError(_STARTING, "gateway starting", shape=shape)


def unauthorized(
    mode: AuthMode,
    *,
    has_credential: bool,
    device_may_retry: bool = False,
    is_guess: bool = False,
) -> HandshakeError:
    """Returns the refusal of a client with a wrong (`has_credential`) or missing shared secret."""
    problem = "mismatch" if has_credential else "missing"
    message = f"unauthorized: gateway {mode} {problem} (it is gateway.auth.{mode} in skerry.json)"
    step = "retry_with_device_token" if device_may_retry else "update_auth_credentials"
    details = {
        "code": f"AUTH_{mode.upper()}_{problem.upper()}",
        "authReason": f"{mode}_{problem}",
        "canRetryWithDeviceToken": device_may_retry,
        "recommendedNextStep": step,
    }
    shape = ErrorShape(ErrorCode.INVALID_REQUEST, message, details)
    return HandshakeError(_REFUSED, message, shape=shape, is_guess=has_credential or is_guess)


def wrong_device_token(*, revoked: bool) -> HandshakeError:
    """Returns the refusal of a device with a wrong or revoked token."""
    message = "unauthorized: device token mismatch (skerry devices rotate makes a new one)"
    if revoked:
        message = "unauthorized: the access of this device was revoked (connect with the gateway's"
        message += " token, then approve it again: skerry devices approve)"
    details = {
        "code": "AUTH_DEVICE_TOKEN_MISMATCH",
        "authReason": "device_token_mismatch",
        "canRetryWithDeviceToken": False,
        "recommendedNextStep": "update_auth_credentials",
    }
    shape = ErrorShape(ErrorCode.INVALID_REQUEST, message, details)
    return HandshakeError(_REFUSED, message, shape=shape, is_guess=True)


def locked_out(seconds: float) -> HandshakeError:
    """Returns the refusal of a locked-out address, whose credentials were not checked."""
    message = "unauthorized: too many failed authentication attempts (retry later)"
    details = {
        "code": "AUTH_RATE_LIMITED",
        "authReason": "rate_limited",
        "canRetryWithDeviceToken": False,
        "recommendedNextStep": "wait_then_retry",
    }
    shape = ErrorShape(
        ErrorCode.INVALID_REQUEST,
        message,
        details,
        retryable=True,
        retry_after_ms=round(seconds * 1000),
    )
    return HandshakeError(_REFUSED, message, shape=shape)


def no_device() -> HandshakeError:
    """Returns the refusal of a client without a required device identity."""
    message = "device identity required"
    shape = ErrorShape(ErrorCode.NOT_PAIRED, message, {"code": "DEVICE_IDENTITY_REQUIRED"})
    return HandshakeError(_REFUSED, message, shape=shape)


def bad_device(reason: str) -> HandshakeError:
    """Returns the refusal of an invalid device identity; `reason` is the text for the client."""
    message, code = _DEVICE_ERRORS[reason]
    return invalid(message, {"code": f"DEVICE_AUTH_{code}", "reason": reason})


_DEVICE_ERRORS: Final = {
    "device-id-mismatch": ("device identity mismatch", "DEVICE_ID_MISMATCH"),
    "device-signature-stale": ("device signature expired", "SIGNATURE_EXPIRED"),
    "device-nonce-mismatch": ("device nonce mismatch", "NONCE_MISMATCH"),
    "device-signature": ("device signature invalid", "SIGNATURE_INVALID"),
}

_REVOKED: Final = "the access of this device was revoked and needs a new approval"
_PAIRING: Final = {
    "not-paired": "device is not approved yet",
    "role-upgrade": "device is asking for a higher role than currently approved",
    "scope-upgrade": "device is asking for more scopes than currently approved",
    "metadata-upgrade": "device claims another platform or family than was approved",
}


def not_paired(waiting: DeviceRequest, *, revoked: bool) -> HandshakeError:
    """Returns the refusal of a device that needs the approval of a person."""
    message = f"pairing required: {_REVOKED if revoked else _PAIRING[waiting.reason]}"
    details = {
        "code": "PAIRING_REQUIRED",
        "reason": waiting.reason,
        "requestId": waiting.request_id,
        "remediationHint": f"Run on the gateway: skerry devices approve {waiting.request_id}",
        "recommendedNextStep": "wait_then_retry",
        "retryable": True,
        "pauseReconnect": False,
        "deviceId": waiting.device_id,
        "requestedRole": waiting.role,
        "requestedScopes": waiting.scopes,
    }
    shape = ErrorShape(ErrorCode.NOT_PAIRED, message, details)
    reason = f"{message} (requestId: {waiting.request_id})"
    return HandshakeError(_REFUSED, reason, shape=shape)
