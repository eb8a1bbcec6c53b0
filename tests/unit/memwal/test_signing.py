"""The plugin's own client signs as the official clients do, byte for byte."""

import importlib
import json
import sys
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from skerry.sdk.errors import PluginError
from skerry_memwal.signing import Signer, canonical

CAPTURES = Path("/work/shared/data/memwal-captures.json")
_CHARS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


def captured() -> dict[str, Any]:
    if not CAPTURES.exists():
        pytest.skip("needs the captured requests of MemWal clients")
    tree: dict[str, Any] = json.loads(CAPTURES.read_bytes())
    return tree


def headers_of(capture: dict[str, Any]) -> dict[str, str]:
    return {name.lower(): value for name, value in capture["headers"]}


def seed_of(text: str) -> bytes:
    """Returns the seed in a bech32 text, whose checksum is not looked at."""
    digits = [_CHARS.index(char) for char in text.rpartition("1")[2]][:-6]
    bits = 0
    for digit in digits:
        bits = bits << 5 | digit
    return (bits >> len(digits) * 5 % 8).to_bytes(len(digits) * 5 // 8, "big")[1:]


def test_every_captured_request_is_signed_as_its_client_signed_it() -> None:
    tree = captured()
    signer = Signer(tree["key_seed_hex"], tree["account_id"], lambda: 0)
    signed = 0
    for capture in (one for client in tree["captures"].values() for one in client):
        given = headers_of(capture)
        if "x-nonce" not in given:
            continue
        body = b64decode(capture["body_b64"])
        made = signer.headers(
            capture["method"],
            capture["path"],
            body,
            timestamp=given["x-timestamp"],
            nonce=given["x-nonce"],
        )
        assert {name: given[name] for name in made} == made
        signed += 1
    assert signed == 55


def test_every_captured_certificate_is_made_as_its_client_made_it() -> None:
    tree = captured()
    signer = Signer(tree["key_seed_hex"], tree["account_id"], lambda: 0)
    made = 0
    for capture in (one for client in tree["captures"].values() for one in client):
        given = headers_of(capture).get("x-seal-session")
        if given is None:
            continue
        fields = json.loads(b64decode(given))
        seed = seed_of(fields["sessionKey"])
        ours = signer.certificate(fields["packageId"], fields["creationTimeMs"], seed)
        assert json.loads(b64decode(ours)) == {"mvrName": None, **fields}
        made += 1
    assert made > 30


def test_a_known_request_is_signed_over_its_six_fields() -> None:
    body = b'{"query":"food allergies","limit":5,"namespace":"default"}'
    account = f"0x{'12' * 32}"
    nonce = "0ded5f29-a3ac-4281-9293-70a463327532"
    digest = "d1424d4a41f6531d4ac31719d2d21a999a6c48350afc010c8a86c6206dc43737"
    message = canonical("1795293231", "POST", "/api/recall", body, nonce, account)
    assert message.decode() == f"1795293231.POST./api/recall.{digest}.{nonce}.{account}"
    made = Signer(bytes(range(1, 33)).hex(), account, lambda: 0).headers(
        "POST", "/api/recall", body, timestamp="1795293231", nonce=nonce
    )
    assert made["x-signature"] == (
        "a88e47f4dffc4dba41f72c09c33ec114cfaeaa6b2b67fecadaac26f1b8c2eeec"
        "1dc7558bec938ec93db0548bd3739be55513cccdac2ae5eb2693331e3563c30a"
    )


def test_a_certificate_is_used_until_shortly_before_its_end() -> None:
    now = 1_000_000_000
    signer = Signer(bytes(range(1, 33)).hex(), "0x12", lambda: now)
    first = signer.session("0xcd")
    now += 4 * 60_000
    assert signer.session("0xcd") == first
    assert signer.session("0xab") != first
    now += 60_000
    second = signer.session("0xcd")
    assert json.loads(b64decode(second))["creationTimeMs"] == now
    assert b64encode(b64decode(second)).decode() == second


def test_without_the_library_that_signs_the_error_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "nacl.bindings", None)
    monkeypatch.delitem(sys.modules, "skerry_memwal.signing")
    with pytest.raises(PluginError, match="PyNaCl") as failure:
        importlib.import_module("skerry_memwal.signing")
    assert failure.value.remedy == "Install it: pip install 'skerry[memwal]'"
