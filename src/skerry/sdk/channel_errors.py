"""Errors of chat platforms, and their effect on the delivery of a part."""

from collections.abc import Callable, Container, Generator
from contextlib import contextmanager
from typing import Final

import anyio

from skerry.model.errors import DeliveryRefusedError
from skerry.model.undelivered import DeliveryDelayedError
from skerry.sdk.channel_host import Fetched, Outcome

__all__ = ["PlatformError", "RateLimit", "check_reached", "named_wait", "undelivered"]
_NOT_SENT: Final = frozenset({"connect", "name-unresolved", "name-timeout"})
"""Rules of a failed fetch that had not sent the request."""


class PlatformError(Exception):
    """A platform did not carry out a request."""

    def __init__(  # noqa: PLR0913 - each is a keyword, and most errors have two
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        retry_after: float | None = None,
        is_login: bool = False,
        is_final: bool = False,
        is_sent: bool = True,
    ) -> None:
        self.status = status
        """HTTP status; 0 when no response arrived."""
        self.code = code
        """Error code of the platform; empty for none."""
        self.retry_after = retry_after
        """Seconds after which the platform accepts another request; None if unknown."""
        self.is_login = is_login
        """True when the credentials are refused, which only a person can correct."""
        self.is_final = is_final
        """True when the same request would fail again."""
        self.is_sent = is_sent
        """False when the request certainly had no effect, and may be repeated."""
        super().__init__(message)


def check_reached(fetched: Fetched, server: str) -> None:
    """Raises `PlatformError` when a request got no response."""
    if fetched.outcome is not Outcome.ALLOW:
        is_sent = fetched.outcome is not Outcome.BLOCK and fetched.rule not in _NOT_SENT
        raise PlatformError(f"{server} cannot be reached: {fetched.reason}", is_sent=is_sent)


def named_wait(fetched: Fetched) -> float | None:
    """Returns the seconds in the header `Retry-After`; None without one, or for a date."""
    text = fetched.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None


def undelivered(error: PlatformError) -> Exception:
    """Returns the error that the outbox understands for a failed part.

    `DeliveryRefusedError` when the part can never be sent, `DeliveryDelayedError` when it may be
    sent later, and the error itself when the delivery is unknown.
    """
    is_later = error.retry_after is not None or error.is_login
    if error.is_final and not is_later:
        return DeliveryRefusedError(str(error))
    if is_later or not error.is_sent:
        return DeliveryDelayedError(str(error), error.retry_after)
    return error  # the delivery is unknown; `settle` may find out


class RateLimit:
    """Blocks requests while the rate limit of a platform is reached."""

    def __init__(
        self,
        platform: str,
        on_login: Callable[[PlatformError], object] | None = None,
        single: Container[str] = (),
    ) -> None:
        """Stores the parts.

        Args:
            platform: Name of the platform, for messages.
            on_login: Called with an error of refused credentials.
            single: Error codes of limits that apply to one person only, and block no others.

        """
        self._platform = platform
        self._on_login = on_login
        self._single = single
        self._until = 0.0
        """End of the limit, in the time of the event loop."""

    @property
    def is_reached(self) -> bool:
        """Returns True while no request may be sent."""
        return self._until > anyio.current_time()

    def refuse(self) -> None:
        """Raises `DeliveryDelayedError` while no request may be sent."""
        seconds = self._until - anyio.current_time()
        if seconds > 0:
            raise DeliveryDelayedError(f"The rate limit of {self._platform} is reached.", seconds)

    @contextmanager
    def sending(self) -> Generator[None]:
        """Converts a `PlatformError` of the block with `undelivered`; records rate limits."""
        try:
            yield
        except PlatformError as error:
            if error.retry_after is not None and error.code not in self._single:
                self._until = anyio.current_time() + error.retry_after
            if error.is_login and self._on_login is not None:
                self._on_login(error)
            outcome = undelivered(error)
            if outcome is error:
                raise
            raise outcome from error
