"""What the gateway for tests is told, and the faults that are planted in it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from skerry.store import nothing
from skerry.testing.gateway import GatewayProcess, model_config, planted

REACH = """
import sys
from skerry.testing.gateway import planted
reach = planted(sys.argv[1])
for number, point in enumerate(sys.argv[2:], 1):
    reach(point)
    print(number, flush=True)
"""


def reached(fault: str, *points: str) -> tuple[int, int]:
    """Return how many points a process passed, and how it ended."""
    ended = subprocess.run(
        [sys.executable, "-c", REACH, fault, *points],
        stdout=subprocess.PIPE,
        timeout=20,
        check=False,
    )
    return len(ended.stdout.splitlines()), ended.returncode


@pytest.mark.parametrize(
    ("fault", "passed"),
    [("a", 1), ("a:2", 2)],
)
def test_a_fault_kills_at_its_point_the_nth_time(fault: str, passed: int) -> None:
    assert reached(fault, "b", "a", "a") == (passed, -signal.SIGKILL)


def test_a_point_that_is_not_named_does_nothing() -> None:
    reach = planted("c")
    reach("a")
    reach("b")


def test_without_a_fault_nothing_is_planted() -> None:
    assert planted("") is nothing


def test_the_configuration_asks_only_the_given_model() -> None:
    config = model_config("http://127.0.0.1:1/v1")
    assert config["agents"]["defaults"]["model"]["primary"] == "test/stub"
    assert list(config["models"]["providers"]) == ["test"]


def test_an_option_that_makes_no_sense_is_refused() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "skerry.testing.gateway", "--model", "other"],
        stderr=subprocess.PIPE,
        timeout=20,
        check=False,
    )
    assert ended.returncode == 2
    assert b"usage:" in ended.stderr


def test_the_token_is_that_of_its_home(tmp_path: Path) -> None:
    (tmp_path / "skerry.json").write_text(json.dumps({"gateway": {"auth": {"token": "t" * 48}}}))
    assert GatewayProcess(tmp_path).token == "t" * 48


def test_one_that_does_not_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="not running"):
        _ = GatewayProcess(tmp_path).pid
