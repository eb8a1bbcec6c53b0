"""Guard of a child process: a shell that sets its limits, and ends its group with this process."""

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
"""Sets the limits and becomes the program. In the background a reader waits for the end of a pipe
that only this process holds open, and ends the group then: PR_SET_PDEATHSIG would reach the first
process alone. No core is dumped: it would contain the secrets of the child."""


def guarded(command: Iterable[str], lifeline: int, limits: Sequence[str]) -> list[str]:
    """Returns the command line of the guard for a command.

    Args:
        command: Path of the program, and its arguments.
        lifeline: Descriptor of the reading end of a pipe that only this process holds open.
        limits: Address space in KiB and size of a file in half KiB; empty for no limit.

    """
    return ["/bin/sh", "-c", _GUARD, "sh", str(lifeline), *limits, *command]
