"""Errors of chat platforms, and their meaning for a part that is sent."""

from collections.abc import Callable, Container, Generator
from contextlib import contextmanager
from typing import Final

import anyio

from skerry.model.errors import DeliveryRefusedError
from skerry.model.undelivered import DeliveryDelayedError
from skerry.sdk.channel_host import Fetched, Outcome

__all__ = ["PlatformError", "RateLimit", "check_reached", "named_wait", "undelivered"]
_NOT_SENT: Final = frozenset({"connect", "name-unresolved", "name-timeout"})
"""Rules of a fetch that ended before anything was sent."""


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
        """Status of HTTP; 0 when no answer arrived."""
        self.code = code
        """Word or number that the platform has for the error; empty for none."""
        self.retry_after = retry_after
        """Seconds after which the platform wants to be asked again."""
        self.is_login = is_login
        """True when only a person can help: the credentials are refused."""
        self.is_final = is_final
        """True when the same request would fail again."""
        self.is_sent = is_sent
        """False when the request certainly was not carried out, and may be later."""
        super().__init__(message)


def check_reached(fetched: Fetched, server: str) -> None:
    """Raises `PlatformError` where a request got no answer."""
    if fetched.outcome is not Outcome.ALLOW:
        is_sent = fetched.outcome is not Outcome.BLOCK and fetched.rule not in _NOT_SENT
        raise PlatformError(f"{server} cannot be reached: {fetched.reason}", is_sent=is_sent)


def named_wait(fetched: Fetched) -> float | None:
    """Returns the seconds of a header `Retry-After`; None where there is none, or a date."""
    text = fetched.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None


def undelivered(error: PlatformError) -> Exception:
    """Returns the error by which the sender of the outbox decides about a part."""
    is_later = error.retry_after is not None or error.is_login
    if error.is_final and not is_later:
        return DeliveryRefusedError(str(error))
    if is_later or not error.is_sent:
        return DeliveryDelayedError(str(error), error.retry_after)
    return error  # nobody knows whether it arrived; `settle` may look


class RateLimit:
    """The time in which a platform wants no request: each one would prolong it."""

    def __init__(
        self,
        platform: str,
        on_login: Callable[[PlatformError], object] | None = None,
        single: Container[str] = (),
    ) -> None:
        """Takes the name of the platform, and a function for errors that a person must mend.

        `single` has the codes of limits that are about one person alone, and hold back nobody else.
        """
        self._platform = platform
        self._on_login = on_login
        self._single = single
        self._until = 0.0
        """Time of the event loop."""

    @property
    def is_reached(self) -> bool:
        """Returns whether no request may be sent now."""
        return self._until > anyio.current_time()

    def refuse(self) -> None:
        """Raises `DeliveryDelayedError` while no request may be sent."""
        seconds = self._until - anyio.current_time()
        if seconds > 0:
            raise DeliveryDelayedError(f"The rate limit of {self._platform} is reached.", seconds)

    @contextmanager
    def sending(self) -> Generator[None]:
        """Raises for a `PlatformError` of the block what `undelivered` makes of it."""
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
