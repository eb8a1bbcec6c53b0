"""Writes the configuration for clients: limits their rate, and converts failures to refusals."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from skerry.config.check import LACKING, NO_EFFECT, UNKNOWN_KEY
from skerry.config.expand import Expanded
from skerry.config.remote_write_policy import Pattern
from skerry.config.source import Source
from skerry.gateway.configuration import WRITES, Applied
from skerry.gateway.frames import ErrorCode
from skerry.gateway.method import Call, RefusedError
from skerry.model.errors import (
    ConfigInvalidError,
    ConfigIssue,
    ConfigProtectedError,
    ConfigRewriteError,
)

_UNRECOGNISED: Final = frozenset({UNKNOWN_KEY, NO_EFFECT, LACKING})

Edit = Callable[[Source, Expanded], dict[str, Any]]
"""Returns the new tree for the present file."""


async def written(
    call: Call, edit: Edit, method: str, *, also: tuple[Pattern, ...] = ()
) -> Applied:
    """Writes and applies the tree that `edit` returns; converts failures to refusals.

    `also` names keys that the method itself changes; with it the rate limit does not apply.
    """
    now = call.context.clock.now_ms()
    wait = 0 if also else call.context.config_writes.wait_ms(call.device_id or "", now)
    if wait:
        seconds = -(-wait // 1000)
        raise RefusedError(
            f"rate limit exceeded for {method}; retry after {seconds}s",
            code=ErrorCode.UNAVAILABLE,
            details={"method": method, "limit": f"{WRITES} per 60s", "retryAfterMs": wait},
            retryable=True,
        )
    change = call.context.configuration.edit(edit, method, also=also)
    return await applied(call, change)


async def applied(call: Call, change: Awaitable[Applied]) -> Applied:
    """Awaits a change; converts failures to refusals.

    Raises:
        RefusedError: the file would be invalid, or a protected key would change.
        ConfigRewriteError: the text of the file cannot be changed.
    """
    try:
        return await change
    except ConfigInvalidError as error:
        raise invalid_config(call, error) from None
    except ConfigProtectedError as error:
        details = {"code": error.code, "paths": list(error.paths), "remedy": error.remedy}
        raise RefusedError(f"{error} {error.remedy}", details=details) from None
    except ConfigRewriteError as error:
        error.remedy = "Edit the file by hand, or remove its comments."
        raise


def invalid_config(call: Call, error: ConfigInvalidError) -> RefusedError:
    """Returns the refusal of an invalid file, with its issues."""
    issues = [issue_row(issue) for issue in error.issues]
    message = "invalid config"
    if call.protocol >= 4 and issues:  # noqa: PLR2004 - the version that says more
        message += f": {issues[0]['path'] or '<root>'}: {issues[0]['message']}"
    return RefusedError(message, details={"issues": issues})


def issue_row(issue: ConfigIssue) -> dict[str, str]:
    """Returns the issue in the form of the protocol: an unknown key is an issue of its section."""
    if issue.message in _UNRECOGNISED:
        section, _, key = issue.path.rpartition(".")
        return {"path": section, "message": f'Unrecognized key: "{key}"', "remedy": issue.remedy}
    return {"path": issue.path, "message": issue.message, "remedy": issue.remedy}
