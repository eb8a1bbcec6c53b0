"""Hooks of a process: payloads are sent and changes returned as JSON."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec

from skerry.model.errors import PluginError
from skerry.plugins.remote.rpc import RemoteError
from skerry.sdk.hook_points import Changed, ChangedAtOnce, HookPoints

_AT_ONCE: Final = "It is called inside a transaction, which must not wait for another process."


def change_of(hook: str) -> Any:
    """Returns the type of the change of a hook; None for a hook that only observes.

    Raises:
        PluginError: handlers of the hook must be synchronous.
    """
    kind = get_type_hints(HookPoints)[hook]
    if get_origin(kind) is ChangedAtOnce:
        raise PluginError(f"The hook {hook} cannot be handled by a process.", _AT_ONCE)
    return get_args(kind)[1] if get_origin(kind) is Changed else None


def handler(
    hook: str, kind: Any, call: Callable[[str, dict[str, Any]], Awaitable[Any]]
) -> Callable[[object], Awaitable[Any]]:
    """Returns a handler that calls the process."""

    async def handle(payload: object) -> Any:
        answer = await call("hook", {"hook": hook, "payload": payload})
        if kind is None or answer is None:
            return None
        try:
            return msgspec.convert(answer, kind)
        except msgspec.ValidationError as error:
            raise RemoteError(f"its change of {hook} does not fit: {error}") from error

    return handle
