"""The arguments of the gateway for tests, and its planted faults."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from skerry.store import no_fault
from skerry.testing.gateway import GatewayProcess, model_config, planted


@pytest.mark.parametrize(
    ("fault", "acts"),
    [("a", [1]), ("a:1", [1]), ("a:2", [3]), ("b", [0]), ("c", []), ("a:4", [])],
)
def test_a_fault_acts_at_its_point_the_nth_time_and_once(fault: str, acts: list[int]) -> None:
    acted: list[int] = []
    passed: list[str] = []
    reach = planted(fault, lambda: acted.append(len(passed)))
    for point in ("b", "a", "b", "a", "a"):
        reach(point)
        passed.append(point)
    assert acted == acts


def test_without_a_fault_nothing_is_planted() -> None:
    assert planted("", lambda: None) is no_fault


def test_the_configuration_asks_only_the_given_model() -> None:
    config = model_config("http://127.0.0.1:1/v1")
    assert config["agents"]["defaults"]["model"]["primary"] == "test/stub"
    assert list(config["models"]["providers"]) == ["test"]


def test_an_option_that_makes_no_sense_is_refused() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "skerry.testing.gateway", "--model", "other"],
        stderr=subprocess.PIPE,
        timeout=60,
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
