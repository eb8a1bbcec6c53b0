"""What a person reads when something went wrong."""

import pytest

from skerry.cli.failure import DEBUG, report
from skerry.model.errors import GatewayUnreachableError


def test_every_failure_is_reason_remedy_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(GatewayUnreachableError("ws://h", "gone"), "skerry chat") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "Reason: No gateway answers at ws://h: gone",
        "Try: Start it with `skerry gateway run`, or name another with --url.",
        "Help: skerry chat --help",
    ]


def test_one_error_in_groups_is_reported_as_itself(capsys: pytest.CaptureFixture[str]) -> None:
    grouped = ExceptionGroup(
        "outer", [ExceptionGroup("inner", [FileNotFoundError(2, "gone", "f")])]
    )
    assert report(grouped, "skerry") == 1
    assert capsys.readouterr().err.startswith("Reason: f: gone.\n")


def test_out_of_time_has_a_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(TimeoutError(), "skerry agent") == 124
    assert "No answer in time." in capsys.readouterr().err


def test_what_nobody_expected_says_how_to_report_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report(KeyError("x"), "skerry")
    assert f"{DEBUG}=1" in capsys.readouterr().err
    monkeypatch.setenv(DEBUG, "1")
    report(KeyError("x"), "skerry")
    assert "KeyError" in capsys.readouterr().err
