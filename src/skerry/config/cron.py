"""Section `cron`: runs that a schedule starts."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from skerry.config.base import OpenSection, Section
from skerry.config.session import SPAN, duration
from skerry.infra.clock import DAY_MS
from skerry.policy.urls import Refusal, parse_url

_DOTS: Final = re.compile(r"(?:^|[/\\])(?:\.|%2e){1,2}(?:[/\\]|$)", re.IGNORECASE)
"""Segments with which a path leaves the one that it begins with."""


def _address(value: str) -> str:
    target = parse_url(value)
    if isinstance(target, Refusal):
        message = f"it is not the address of a webhook: {target.reason}"
        raise ValueError(message)  # noqa: TRY004 - pydantic reports ValueError
    return value


WebhookAddress = Annotated[str, Field(max_length=2048), AfterValidator(_address)]


class CronRunLogConfig(Section):
    """Log of the runs of scheduled jobs."""

    keep_lines: int = Field(default=2000, ge=1, le=100_000)
    """Number of ended runs that are kept for each job."""


class CronConfig(OpenSection):
    """Runs that a schedule starts."""

    enabled: bool = True
    """Starts jobs when they are due; `skerry cron run` works without it."""
    max_concurrent_runs: int = Field(default=1, ge=1, le=100)
    """Scheduled runs at the same time, in addition to `agents.defaults.maxConcurrent`."""
    session_retention: Annotated[int, BeforeValidator(duration), SPAN] = Field(
        default=DAY_MS, ge=60_000
    )
    """Time for which the conversations of earlier runs of a job, and of removed jobs, are kept,
    such as `24h`."""
    run_log: CronRunLogConfig = CronRunLogConfig.model_construct()
    webhook_token: SecretStr | None = None
    """Token that is sent as `Authorization: Bearer` to the webhooks in `webhookTokenUrls`, and to
    no other."""
    webhook_token_urls: tuple[WebhookAddress, ...] = Field(default=(), max_length=100)
    """Addresses of webhooks that receive `webhookToken`; one that ends with `/` is every address
    below it."""

    def token_for(self, address: str) -> str | None:
        """Returns the token for a webhook; None where none is set, or the address is not listed."""
        target = parse_url(address)
        if self.webhook_token is None or isinstance(target, Refusal):
            return None
        path = target.path.partition("?")[0]
        for text in self.webhook_token_urls:
            listed = parse_url(text)
            if isinstance(listed, Refusal) or listed.origin != target.origin:
                continue
            below = listed.path.endswith("/") and path.startswith(listed.path)
            if target.path == listed.path or (below and not _DOTS.search(path)):
                return self.webhook_token.get_secret_value()
        return None
