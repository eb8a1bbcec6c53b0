"""`skerry net check`: its answers to objects, lines and options."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from skerry.cli.main import main
from skerry.features.net.checking import checked
from skerry.policy.network import NetworkRules


def answer(**item: Any) -> dict[str, Any]:
    return checked(item, NetworkRules())


def test_an_object_has_verdict_rule_and_reason() -> None:
    payload = answer(id="a", url="http://A.example/", dns={"a.EXAMPLE.": ["93.184.216.34"]})
    assert payload == {
        "id": "a",
        "verdict": "allow",
        "rule": "public",
        "reason": "a.example may be fetched.",
    }
    assert answer(id=2, url="http://a.example/")["rule"] == "name-unresolved"


@pytest.mark.abuse(97)
def test_each_of_our_own_cases_has_its_verdict() -> None:
    """487 forms of addresses, names, authorities, answers and redirects."""
    data = Path(__file__).parents[3] / "data/net/ssrf_own.jsonl"
    wrong = []
    for case in map(json.loads, data.read_text("utf-8").splitlines()):
        payload = checked(case, NetworkRules())
        if payload["verdict"] != case["expect"]:
            wrong.append((case["id"], case["url"], case["expect"], payload["rule"]))
    assert not wrong


def test_a_null_is_as_no_member() -> None:
    item = {"url": "http://1.1.1.1/", "dns": None, "dns2": None, "dns_sequence": None}
    assert answer(**item, redirects=None)["verdict"] == "allow"
    assert answer(url="http://1.1.1.1/", redirects="")["rule"] == "input"


def test_answers_of_a_second_resolution_count_too() -> None:
    public = {"a.example": ["93.184.216.34"]}
    url = "http://a.example/"
    assert (
        answer(url=url, dns=public, dns2={"a.example": ["10.0.0.1"]})["rule"] == "address-private"
    )
    turns = [["93.184.216.34"], ["10.0.0.1"]]
    assert answer(url=url, dns_sequence=turns)["rule"] == "address-private"
    assert answer(url=url, dns_sequence=turns[:1])["verdict"] == "allow"


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"url": 3},
        {"url": "http://a.example", "dns": 1},
        {"url": "http://a.example", "dns": {"a.example": "1.1.1.1"}},
        {"url": "http://a.example", "dns": {"a.example": [1]}},
        {"url": "http://a.example", "redirects": "http://b.example"},
        {"url": "http://a.example", "redirects": ["/"] * 1001},
        {"url": "http://a.example", "dns_sequence": ["1.1.1.1"]},
    ],
)
def test_an_object_of_another_form_is_refused_with_the_reason(item: dict[str, Any]) -> None:
    payload = checked({"id": 7, **item}, NetworkRules())
    assert (payload["id"], payload["verdict"], payload["rule"]) == (7, "block", "input")
    assert payload["error"]["message"]


class Input:
    """Standard input as a process has it."""

    def __init__(self, text: bytes) -> None:
        self.buffer = io.BytesIO(text)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKERRY_STATE_DIR", str(tmp_path))
    return tmp_path


def test_bad_lines_are_answered_and_the_others_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = b'x\n\n[1]\n{"id":1,"url":"http://1.1.1.1"}\n\xff\n{"id":2,"url":"http://10.0.0.1"}'
    monkeypatch.setattr("sys.stdin", Input(text))
    assert main(["net", "check", "--stdin", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("error", {}).get("code") or line["verdict"] for line in rows] == [
        "bad-line",
        "bad-line",
        "allow",
        "bad-line",
        "block",
    ]


def test_an_address_of_the_command_line_is_checked_with_the_owners_settings(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["net", "check", "http://nas.lan:8081/", "--resolve", "nas.lan=10.0.0.7", "--json"]
    main(words)
    assert json.loads(capsys.readouterr().out)["rule"] == "port"
    policy = {"allowedHostnames": ["nas.lan:8081"]}
    settings = {"tools": {"web": {"fetch": {"ssrfPolicy": policy}}}}
    (home / "skerry.json").write_text(json.dumps(settings), encoding="utf-8")
    main(words)
    assert json.loads(capsys.readouterr().out)["rule"] == "allowed-host"
    main(words[:-1])
    assert capsys.readouterr().out == "allow: nas.lan may be fetched. [allowed-host]\n"


def test_an_option_without_an_address_names_its_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["net", "check", "http://a.example/", "--resolve", "a.example"]) == 1
    assert "HOST=ADDR" in capsys.readouterr().err


def test_fetches_of_lines_are_answered_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        b'{"id":1,"url":"http://127.0.0.1/"}\n{"id":2}\nx\n'
        b'{"id":3,"url":"http://10.0.0.1/","maxBytes":0}\n{"id":4,"url":"http://[::1]/","body":"a"}'
    )
    monkeypatch.setattr("sys.stdin", Input(text))
    assert main(["net", "fetch", "--stdin", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    rules = ["address-loopback", "input", "bad-line", "input", "address-loopback"]
    assert [line.get("rule") for line in rows] == rules
    assert rows[0] == {
        "id": 1,
        "verdict": "block",
        "rule": "address-loopback",
        "reason": "The address 127.0.0.1 is not public (loopback).",
        "status": None,
        "finalUrl": "http://127.0.0.1/",
        "bytes": 0,
        "truncated": False,
    }
