"""Guard of a child process: a shell that sets its limits, and ends its group when we die."""

from collections.abc import Iterable, Sequence
from typing import Final

_GUARD: Final = """
lifeline=/dev/fd/$1
ulimit -c 0
[ -z "$2" ] || ulimit -v "$2" || exit 126
[ -z "$3" ] || ulimit -f "$3" || exit 126
shift 3
{ trap '' TERM; read -r _; kill -KILL 0; } <"$lifeline" >/dev/null 2>&1 &
exec "$@"
"""
"""Sets the limits and becomes the program. Beside it a reader waits for the end of a pipe that only
we hold open, and ends the group then: the death of a parent would reach its first process alone. No
core is dumped: it would hold what the child was given."""


def guarded(command: Iterable[str], lifeline: int, limits: Sequence[str]) -> list[str]:
    """Returns the command behind its guard.

    Args:
        command: Path of the program, and its arguments.
        lifeline: Descriptor of the reading end of a pipe that only we hold open.
        limits: Address space in KiB and size of a file in half KiB; empty for no limit.

    """
    return ["/bin/sh", "-c", _GUARD, "sh", str(lifeline), *limits, *command]
