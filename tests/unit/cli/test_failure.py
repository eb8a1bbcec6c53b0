"""Error messages of commands."""

import json
from pathlib import Path

import pytest

from skerry.cli.failure import DEBUG, FailedError, report
from skerry.cli.main import main
from skerry.model.errors import GatewayRefusedError, GatewayUnreachableError


def test_every_failure_is_reason_remedy_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(GatewayUnreachableError("ws://h", "gone"), "skerry chat") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "Reason: No gateway answers at ws://h: gone",
        "Try: Start it with `skerry gateway run`, or pass another address with --url.",
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


def test_with_json_the_failure_is_one_object_on_stdout_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = GatewayRefusedError("UNAVAILABLE", "Limited.", "model.rate_limit")
    refused.retry_after_ms = 120_000
    assert report(FailedError("No.", "Do.", 2), "skerry x", as_json=True) == 2
    assert report(TimeoutError(), "skerry x", as_json=True) == 124
    assert report(refused, "skerry x", as_json=True) == 1
    out, err = capsys.readouterr()
    assert [json.loads(line)["error"] for line in out.splitlines()] == [
        {"code": "command", "message": "No.", "remedy": "Do."},
        {
            "code": "timeout",
            "message": "No answer in time.",
            "remedy": "Raise the limit with --timeout.",
        },
        {
            "code": "model.rate_limit",
            "message": "Limited.",
            "remedy": "",
            "wireCode": "UNAVAILABLE",
            "retryAfterMs": 120_000,
        },
    ]
    assert err.count("Reason: ") == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("agent", "--message", "x"),
        ("sessions", "list"),
        ("gateway", "call", "health"),
        ("gateway", "call", "health", "--params", "["),
        ("prompt", "show"),
        ("outbox", "list"),
        ("config", "get", "nothing.there"),
        ("hooks", "info", "nobody"),
    ],
)
def test_a_command_that_fails_prints_its_error_as_json(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("SKERRY_GATEWAY_PORT", "1")
    monkeypatch.setenv("SKERRY_GATEWAY_TOKEN", "x")
    assert main([*arguments, "--json"]) in {1, 2}
    failure = json.loads(capsys.readouterr().out)
    assert failure["ok"] is False
    assert failure["error"].keys() >= {"code", "message", "remedy"}
    assert failure["error"]["remedy"]
