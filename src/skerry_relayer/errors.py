"""Errors of the memory and of the key server, with their HTTP status."""

from typing import ClassVar


class RelayerError(Exception):
    """Error: the response is `status` and `{"error": text}` with a text for people."""

    status: ClassVar[int] = 500


class RefusedError(RelayerError):
    """Error: the content of a request is not acceptable: 400."""

    status = 400


class NoCertificateError(RelayerError):
    """Error: decryption needs a valid `x-seal-session`: 401 with an empty body."""

    status = 401


class QuotaError(RelayerError):
    """Error: the storage quota of the owner is used up: 402."""

    status = 402

    def __init__(self, used: int, allowed: int) -> None:
        mib = 1024 * 1024
        super().__init__(
            f"Storage quota exceeded: {used / mib:.1f}MB used of {allowed / mib:.1f}MB allowed"
        )


class ForbiddenError(RelayerError):
    """Error: the caller has no right to the owner or namespace: 403."""

    status = 403


class MissingError(RelayerError):
    """Error: the job, memory or path does not exist: 404."""

    status = 404


class KeyReusedError(RelayerError):
    """Error: an idempotency key was already used with different content: 409."""

    status = 409

    def __init__(self) -> None:
        super().__init__("idempotency_key was already used for a request with different content")


class DownError(RelayerError):
    """Error: the key server, the model, the embedder or the store does not answer: 503."""

    status = 503
