"""Certificates of delegates: real ones verify, and every change makes them invalid."""

import base64
import json

import pytest

from skerry_relayer.sessions import CertificateError, verify
from tests.support.memwal import Delegate

NOW = 1795293231.5
ME = Delegate()
OTHER = Delegate(seed=bytes(range(2, 34)))


def check(header: str, *, now: float = NOW, by: Delegate = ME, package: str = "") -> float:
    package = package or ME.package_id
    return verify(header, public_key=by.public.hex(), package_id=package, now=now).expires_at


def test_a_certificate_holds_for_its_minutes() -> None:
    header = ME.certificate(NOW)
    assert check(header) == pytest.approx(NOW + 300)
    assert check(header, now=NOW + 299) > NOW


@pytest.mark.parametrize(
    ("header", "now"),
    [
        pytest.param(ME.certificate(NOW), NOW + 301, id="expired"),
        pytest.param(ME.certificate(NOW), NOW - 301, id="from-the-future"),
        pytest.param(ME.certificate(NOW, minutes=31), NOW, id="too-long-lived"),
        pytest.param(ME.certificate(NOW, minutes=0), NOW, id="no-life"),
        pytest.param(ME.certificate(NOW, ttlMin=29), NOW, id="longer-than-signed"),
        pytest.param(ME.certificate(NOW, creationTimeMs=NOW * 1000 + 5000), NOW, id="later"),
        pytest.param(ME.certificate(NOW, creationTimeMs=2**62), NOW, id="no-date"),
        pytest.param(ME.certificate(NOW, address="0x" + "0" * 64), NOW, id="address"),
        pytest.param(ME.certificate(NOW, sessionKey="suiprivkey1q"), NOW, id="session-key"),
        pytest.param(ME.certificate(NOW, package_id="0x" + "ce" * 32), NOW, id="package"),
        pytest.param(OTHER.certificate(NOW), NOW, id="of-another-delegate"),
        pytest.param("", NOW, id="empty"),
        pytest.param("!", NOW, id="not-base64"),
        pytest.param(base64.b64encode(b"[" * 2000).decode(), NOW, id="deep"),
        pytest.param(base64.b64encode(b" " * 4000).decode(), NOW, id="long"),
    ],
)
def test_any_other_certificate_is_refused(header: str, now: float) -> None:
    with pytest.raises(CertificateError):
        check(header, now=now)


def test_a_flipped_bit_of_the_signature_is_refused() -> None:
    wire = json.loads(base64.b64decode(ME.certificate(NOW)))
    signed = bytearray(base64.b64decode(wire["personalMessageSignature"]))
    for place in (0, 1, 64, 65, 96):
        changed = bytearray(signed)
        changed[place] ^= 1
        wire["personalMessageSignature"] = base64.b64encode(changed).decode()
        with pytest.raises(CertificateError):
            check(base64.b64encode(json.dumps(wire).encode()).decode())
