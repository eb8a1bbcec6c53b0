"""What a plugin is given: its `register(api)` says there what it wants to take part in."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import Handler


class UnknownHookError(Exception):
    """A plugin registered for a hook point that does not exist."""

    def __init__(self, hook: str, known: list[str]) -> None:
        near = get_close_matches(hook, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"There is no hook {hook!r}.{hint} Hooks: {', '.join(known)}.")


class PluginApi:
    """The gateway as one plugin sees it."""

    def __init__(self, plugin: str, hooks: Hooks) -> None:
        self.plugin = plugin
        self._hooks = hooks

    def on(self, hook: str, call: Callable[[Any], Any], *, priority: int = 0) -> None:
        """Let `call` take part at the hook point; of two, the higher priority runs first.

        `call` gets the payload of the point and returns None or its change, as the reference says.
        An async function runs in the gateway's event loop and must not block it; a plain function
        runs in a thread.

        Raises:
            UnknownHookError: there is no such point.
        """
        points = self._hooks.points
        if hook not in points:
            raise UnknownHookError(hook, list(points))
        points[hook].add(Handler(self.plugin, call, priority))
