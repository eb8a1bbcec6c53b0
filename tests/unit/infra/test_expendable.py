"""Work on text in a process of its own: its limits, and that it comes back after each."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skerry.infra.expendable import Expendable, ExpendableError

WORK = """
import os, time

def answer(value):
    match value:
        case "pid":
            return os.getpid()
        case "forever":
            while True:
                pass
        case "memory":
            return len(b"x" * (1 << 33))
        case "raise":
            raise ValueError("not this one")
        case "die":
            os._exit(3)
        case "print":
            print("between the answers", flush=True)
            return "printed"
        case "environment":
            return sorted(os.environ)
        case "write":
            with open("/tmp/expendable-canary", "w") as file:
                file.write("x")
        case _:
            return value
"""


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Expendable]:
    (tmp_path / "work_of_a_test.py").write_text(WORK, encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "SOME_API_KEY": "secret"}
    made = Expendable("work_of_a_test:answer", cpu_seconds=1, environ=environ)
    yield made
    made.close()


def test_it_answers_in_another_process_and_keeps_it(work: Expendable) -> None:
    first = work("pid")
    assert first not in {None, os.getpid()}
    assert work("pid") == first
    assert work(["a", {"b": "ü" * 3_000_000}]) == ["a", {"b": "ü" * 3_000_000}]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("forever", "signal 27"),
        ("memory", "too much memory"),
        ("raise", "ValueError: not this one"),
        ("die", "code 3"),
        ("write", "OSError|File too large"),
    ],
)
def test_what_goes_beyond_a_limit_fails_and_the_next_call_works(
    work: Expendable, asked: str, why: str
) -> None:
    with pytest.raises(ExpendableError, match=why):
        work(asked)
    assert work("hello") == "hello"


def test_what_a_library_prints_is_no_answer(work: Expendable) -> None:
    assert work("print") == "printed"
    assert work("hello") == "hello"


def test_it_gets_no_key(work: Expendable) -> None:
    found = work("environment")
    assert isinstance(found, list)
    assert "PATH" in found
    assert "SOME_API_KEY" not in found


def test_killed_from_outside_it_is_started_again(work: Expendable) -> None:
    pid = work("pid")
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 60
    while work.pid is not None and time.monotonic() < until:
        threading.Event().wait(0.01)
    assert work("hello") == "hello"
    assert work("pid") != pid


def test_after_its_idle_time_it_ends_and_the_next_call_starts_another(tmp_path: Path) -> None:
    (tmp_path / "work_of_a_test.py").write_text(WORK, encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    work = Expendable("work_of_a_test:answer", idle_seconds=1, environ=environ)
    first = work("pid")
    until = time.monotonic() + 60
    while work.pid is not None and time.monotonic() < until:
        threading.Event().wait(0.05)
    assert work.pid is None
    assert work("pid") != first
    work.close()
    assert work.pid is None


def test_closing_ends_a_call_under_way(tmp_path: Path) -> None:
    (tmp_path / "work_of_a_test.py").write_text(WORK, encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    work = Expendable("work_of_a_test:answer", cpu_seconds=60, environ=environ)
    work("hello")
    errors: list[ExpendableError] = []

    def call() -> None:
        try:
            work("forever")
        except ExpendableError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    work.close()
    thread.join(60)
    assert not thread.is_alive()
