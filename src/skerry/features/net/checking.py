"""Answers one check of `skerry net check`: reads the object, applies the policy."""

from collections.abc import Mapping
from typing import Any, Final

from skerry.cli.json_lines import BadLine
from skerry.policy.network import NetworkRules, NetworkVerdict, check_fetch
from skerry.policy.urls import parse_host

MAX_ITEMS: Final = 1000
"""Maximum number of names, of addresses of a name, and of redirects of one check."""


class InputError(Exception):
    """The object has another form; the message describes the fault."""


def checked(item: Mapping[str, Any], rules: NetworkRules) -> dict[str, Any]:
    """Returns the answer to `{id, url, dns: {host: [address]}, redirects: [location]}`.

    `dns2` and `dns_sequence` are the addresses of later resolutions, because each connection
    resolves again: a forbidden address in any of them refuses the fetch.
    """
    try:
        verdict = _verdict(item, rules)
    except InputError as error:
        return input_error(item, error)
    verdict_text = "allow" if verdict.allowed else "block"
    return {
        "id": item.get("id"),
        "verdict": verdict_text,
        "rule": verdict.rule,
        "reason": verdict.reason,
    }


def refusal(line: BadLine) -> dict[str, Any]:
    """Returns the answer to an invalid line: a refusal with the fault."""
    return {**line.answer, "verdict": "block", "rule": "bad-line", "reason": line.message}


def input_error(item: Mapping[str, Any], error: InputError) -> dict[str, Any]:
    """Returns the answer to an invalid object: a refusal with the fault."""
    message = str(error)
    refusal = {"id": item.get("id"), "verdict": "block", "rule": "input", "reason": message}
    return {**refusal, "error": {"code": "input", "message": message}}


def _verdict(item: Mapping[str, Any], rules: NetworkRules) -> NetworkVerdict:
    url = item.get("url")
    if not isinstance(url, str):
        raise InputError("url is not a text.")
    locations = item.get("redirects")  # null counts as missing, as for the other members
    redirects = [] if locations is None else _texts("redirects", locations)
    addresses_of: dict[str, list[str]] = {}
    for key in ("dns", "dns2"):
        answers = item.get(key) or {}
        if not isinstance(answers, dict) or len(answers) > MAX_ITEMS:
            raise InputError(f"{key} is not an object of names with their addresses.")
        for host, addresses in answers.items():
            addresses_of.setdefault(_host(host), []).extend(_texts(f"{key}.{host}", addresses))
    sequence = item.get("dns_sequence") or []
    every = [
        text for turn in _list("dns_sequence", sequence) for text in _texts("dns_sequence", turn)
    ]

    def answers_of(host: str) -> list[str] | None:
        addresses_of_host = addresses_of.get(host)
        return every or None if addresses_of_host is None else addresses_of_host

    return check_fetch(url, answers_of, redirects, rules)


def _host(text: str) -> str:
    parsed = parse_host(text)
    return parsed if isinstance(parsed, str) else text


def _list(name: str, value: object) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise InputError(f"{name} is not a list of at most {MAX_ITEMS}.")
    return value


def _texts(name: str, value: object) -> list[str]:
    texts = _list(name, value)
    if not all(isinstance(text, str) for text in texts):
        raise InputError(f"{name} is not a list of texts.")
    return texts
