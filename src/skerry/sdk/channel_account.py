"""Base class of an account: its state, and the waits between attempts to connect."""

import logging
from typing import ClassVar, Final

from skerry.infra.backoff import Backoff
from skerry.model.ids import ChannelId
from skerry.ports.channel import AccountState, ConnectionState
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import ChannelHost

__all__ = ["Account"]
logger = logging.getLogger(__name__)

LOGIN_WAIT: Final = 300.0
"""Seconds between two attempts with refused credentials."""


class Account:
    """One account of a chat platform; the base class of adapters."""

    channel: ClassVar[ChannelId]
    """Name of the platform."""
    waits: ClassVar[Backoff] = Backoff(base=1.0, cap=60.0)
    """Waits between attempts to reach the platform."""
    login_remedy: str = "Correct the credentials"
    """Remedy for refused credentials, before the command."""
    login_command: str = "login"
    """Command of `skerry channels` in that remedy."""
    retry_remedy: str = "It is tried again; `skerry channels status --probe` tries at once."
    """Remedy for all other errors."""

    def __init__(self, host: ChannelHost) -> None:
        self.account: Final = host.account
        self.state = AccountState()
        self.host: Final = host
        self.failures = 0
        """Number of failed attempts in a row."""

    def connected(self, name: str) -> None:
        """Sets the state to connected; `name` is the name of the account on the platform."""
        self.failures = 0
        self.state = AccountState(ConnectionState.CONNECTED, name=name)

    def failed(self, error: Exception) -> float:
        """Sets the state after a failed attempt; returns the seconds to wait before the next."""
        self.failures += 1
        is_login = isinstance(error, PlatformError) and error.is_login
        state = ConnectionState.NEEDS_LOGIN if is_login else ConnectionState.RETRYING
        self.state = AccountState(state, str(error), self.remedy(error), self.state.name)
        if is_login:
            logger.error("%s/%s: %s", self.channel, self.account, error)
            return LOGIN_WAIT
        if self.failures == 1:
            logger.warning("%s/%s: %s", self.channel, self.account, error)
        wait = error.retry_after if isinstance(error, PlatformError) else None
        return wait or self.waits.delay(self.failures)

    def remedy(self, error: Exception) -> str:
        """Returns the next step for a person."""
        if not (isinstance(error, PlatformError) and error.is_login):
            return self.retry_remedy
        command = f"skerry channels {self.login_command} {self.channel} --account {self.account}"
        return f"{self.login_remedy}, then run `{command}`."
