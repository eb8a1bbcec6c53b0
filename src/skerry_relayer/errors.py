"""Errors of the memory and of the key server, with their HTTP status."""

from typing import ClassVar


class RelayerError(Exception):
    """A request that is answered with `status` and `{"error": text}`; the text is for people."""

    status: ClassVar[int] = 500


class RefusedError(RelayerError):
    """A request whose content is not acceptable: 400."""

    status = 400


class NoCertificateError(RelayerError):
    """Text is to be opened without a valid `x-seal-session`: 401 with an empty body."""

    status = 401


class QuotaError(RelayerError):
    """The owner's storage quota is used up: 402."""

    status = 402

    def __init__(self, used: int, allowed: int) -> None:
        mib = 1024 * 1024
        super().__init__(
            f"Storage quota exceeded: {used / mib:.1f}MB used of {allowed / mib:.1f}MB allowed"
        )


class ForbiddenError(RelayerError):
    """The caller has no right to the owner or namespace: 403."""

    status = 403


class MissingError(RelayerError):
    """No such job, memory or path: 404."""

    status = 404


class KeyReusedError(RelayerError):
    """Error: an idempotency key was used before with other content: 409."""

    status = 409

    def __init__(self) -> None:
        super().__init__("idempotency_key was already used for a request with different content")


class DownError(RelayerError):
    """The key server, the model, the embedder or the store does not answer: 503."""

    status = 503
