"""Guard of a child process: a shell that sets its limits, and ends its group when we die."""

import os
from collections.abc import Iterable, Sequence
from typing import Final

_GUARD: Final = """
lifeline=/dev/fd/$1
for path in /proc/self/fd/*; do
  number=${path##*/}
  case $number in *[!0-9]*|[012]) continue;; esac
  case $4 in *" $number "*) continue;; esac
  if [ -n "$BASH" ] || [ "$number" -lt 10 ]; then eval "exec $number>&-"; fi
done
ulimit -c 0
[ -z "$2" ] || ulimit -v "$2" || exit 126
[ -z "$3" ] || ulimit -f "$3" || exit 126
shift 4
{ trap '' TERM; read -r _; kill -KILL 0; } <"$lifeline" >/dev/null 2>&1 &
exec "$@"
"""
"""Sets the limits and becomes the program. Beside it a reader waits for the end of a pipe that only
we hold open, and ends the group then: the death of a parent would reach its first process alone. No
core is dumped: it would hold what the child was given. Descriptors that are not named are closed:
uvloop leaves some open in a child, its own and those with which we were started. Only bash can
close a number of two digits."""
_SHELLS: Final = ("/bin/bash", "/usr/bin/bash", "/bin/sh")


def guarded(
    command: Iterable[str], lifeline: int, limits: Sequence[str], descriptors: Iterable[int]
) -> list[str]:
    """Returns the command behind its guard.

    Args:
        command: Path of the program, and its arguments.
        lifeline: Descriptor of the reading end of a pipe that only we hold open.
        limits: Address space in KiB and size of a file in half KiB; empty for no limit.
        descriptors: Those that the program gets beside its standard streams.

    """
    shell = next(filter(os.path.exists, _SHELLS), "/bin/sh")
    options = ("--noprofile", "--norc", "--posix", "-p") if "bash" in shell else ()
    keep = f" {' '.join(map(str, (lifeline, *descriptors)))} "
    return [shell, *options, "-c", _GUARD, "sh", str(lifeline), *limits, keep, *command]
