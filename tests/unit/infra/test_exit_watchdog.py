"""The hard end of a process: when it comes, and which one counts."""

import threading

from skerry.infra.exit_watchdog import Leaving


def test_the_last_time_that_was_named_counts() -> None:
    codes: list[int] = []
    gone = threading.Event()

    def leave(code: int) -> None:
        codes.append(code)
        gone.set()

    leaving = Leaving(leave)
    leaving.within(600, 1)
    leaving.within(0.01, 75)
    assert gone.wait(60)
    assert codes == [75]
