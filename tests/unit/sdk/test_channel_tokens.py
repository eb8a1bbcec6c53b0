"""Tokens of platforms: valid only with the platform's signature, for this account and time."""

import base64
import hmac
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding

from skerry.sdk.access_tokens import AccessError, AccessToken
from skerry.sdk.channel_host import AccountHttp
from skerry.sdk.channel_tokens import (
    IssuerKeys,
    KeysUnavailableError,
    RequiredClaims,
    TokenError,
    private_key,
    signed,
    verified,
)
from skerry.testing.clock import FakeClock
from skerry.testing.http_server import ServedRequest, ServedResponse, serve
from skerry.testing.token_issuer import KID, encoded, jwk, pem, signing_key, token

NOW = 1_700_000_000
CLAIMS = {"iss": "https://issuer", "aud": "app", "iat": NOW, "nbf": NOW, "exp": NOW + 3600}
RULES = RequiredClaims("app", ("https://issuer",))


class Issuer:
    """A server of keys."""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = [jwk(endorsements=["msteams"])]
        self.asked: list[str] = []
        self.broken = False
        self.clock = FakeClock(NOW * 1000)
        self.url = ""

    async def handle(self, request: ServedRequest) -> ServedResponse:
        self.asked.append(request.path)
        if self.broken:
            return ServedResponse(b"<html>", 500, "text/html")
        if request.path == "/metadata":
            return ServedResponse.of({"issuer": "https://issuer", "jwks_uri": f"{self.url}/keys"})
        return ServedResponse.of({"keys": self.keys})

    def open(self, path: str = "/keys") -> IssuerKeys:
        http = AccountHttp([self.url])
        return IssuerKeys(http, self.url + path, self.clock, is_metadata=path == "/metadata")


@asynccontextmanager
async def issuing() -> AsyncGenerator[Issuer]:
    issuer = Issuer()
    async with serve(issuer.handle) as issuer.url:
        yield issuer


def none_signed() -> str:
    parts = [encoded(msgspec.json.encode(part)) for part in ({"alg": "none", "kid": KID}, CLAIMS)]
    return ".".join([*parts, ""])


def signed_with_the_public_key() -> str:
    head = {"alg": "HS256", "kid": KID}
    text = ".".join(encoded(msgspec.json.encode(part)) for part in (head, CLAIMS))
    public = base64.urlsafe_b64decode(jwk()["n"] + "==")
    return f"{text}.{encoded(hmac.digest(public, text.encode(), 'sha256'))}"


def raw(header: object, claims: object) -> str:
    text = ".".join(encoded(msgspec.json.encode(part)) for part in (header, claims))
    signature = signing_key().sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{encoded(signature)}"


def unnamed() -> str:
    return raw({"alg": "RS256", "kid": None}, CLAIMS)


def listed() -> str:
    return raw({"alg": "RS256", "kid": KID}, [CLAIMS])


def changed() -> str:
    head, _, signature = token(CLAIMS).split(".")
    body = encoded(msgspec.json.encode(CLAIMS | {"aud": "app", "sub": "owner"}))
    return f"{head}.{body}.{signature}"


DEEP = b'{"crit":' + b"[" * 9000
FORGED = {
    "nothing": "",
    "another scheme": f"Basic {token(CLAIMS)}",
    "no token": "Bearer x",
    "too many parts": f"Bearer {token(CLAIMS)}.x",
    "too long": "Bearer " + "x" * 20_000,
    "no signature": f"Bearer {none_signed()}",
    "a signature with the public key": f"Bearer {signed_with_the_public_key()}",
    "another algorithm in the header": f"Bearer {token(CLAIMS, alg='RS512')}",
    "critical extensions": f"Bearer {token(CLAIMS, crit=['exp'])}",
    "changed claims": f"Bearer {changed()}",
    "another key of that name": f"Bearer {token(CLAIMS, key=signing_key('stranger'))}",
    "a key that is unknown": f"Bearer {token(CLAIMS, 'stranger')}",
    "a name of a key that is no text": f"Bearer {unnamed()}",
    "another issuer": f"Bearer {token(CLAIMS | {'iss': 'https://issuer.evil'})}",
    "no issuer": f"Bearer {token(CLAIMS | {'iss': ''})}",
    "another audience": f"Bearer {token(CLAIMS | {'aud': 'app2'})}",
    "no audience": f"Bearer {token(CLAIMS | {'aud': []})}",
    "expired": f"Bearer {token(CLAIMS | {'exp': NOW - 300})}",
    "without an end": f"Bearer {token(CLAIMS | {'exp': None})}",
    "an end that is no time": f"Bearer {token(CLAIMS | {'exp': True})}",
    "an end that is text": f"Bearer {token(CLAIMS | {'exp': '9999999999'})}",
    "of a time to come": f"Bearer {token(CLAIMS | {'nbf': NOW + 301})}",
    "issued in time to come": f"Bearer {token(CLAIMS | {'iat': NOW + 301})}",
    "claims that are a list": f"Bearer {listed()}",
    "padding": f"Bearer {token(CLAIMS)}==",
    "a header that is no text": f"Bearer {encoded(bytes([0x22, 0xFF, 0x22]))}.e30.e30",
    "a header that is deep": f"Bearer {encoded(DEEP)}.e30.e30",
}


@pytest.mark.parametrize("authorization", FORGED.values(), ids=FORGED)
async def test_forged_expired_future_and_foreign_tokens_are_refused(authorization: str) -> None:
    async with issuing() as issuer:
        with pytest.raises(TokenError):
            await verified(authorization, issuer.open(), RULES, issuer.clock)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"aud": ["other", "app"]},
        {"exp": NOW - 299},
        {"nbf": NOW + 299, "iat": NOW + 299},
        {"nbf": None, "exp": NOW + 0.5},
    ],
    ids=str,
)
async def test_a_token_of_the_platform_is_taken_within_the_difference_of_clocks(
    more: dict[str, Any],
) -> None:
    async with issuing() as issuer:
        text = f"bearer {token(CLAIMS | more)}"
        proven = await verified(text, issuer.open(), RULES, issuer.clock)
        assert proven.claims["iss"] == "https://issuer"
        assert proven.endorsements == {"msteams"}


async def test_the_metadata_names_issuer_and_keys() -> None:
    async with issuing() as issuer:
        keys, rules = issuer.open("/metadata"), RequiredClaims("app")
        await verified(f"Bearer {token(CLAIMS)}", keys, rules, issuer.clock)
        other = token(CLAIMS | {"iss": "https://other"})
        with pytest.raises(TokenError, match="issuer"):
            await verified(f"Bearer {other}", keys, rules, issuer.clock)
        assert issuer.asked == ["/metadata", "/keys"]


async def test_without_an_issuer_no_token_counts() -> None:
    async with issuing() as issuer:
        for claims in (CLAIMS, CLAIMS | {"iss": ""}):
            with pytest.raises(TokenError, match="issuer"):
                await verified(
                    f"Bearer {token(claims)}", issuer.open(), RequiredClaims("app"), issuer.clock
                )


async def test_keys_are_fetched_once_a_day_and_for_invented_names_once_a_minute() -> None:
    async with issuing() as issuer:
        keys = issuer.open()
        for _ in range(3):
            await keys.find(KID)
        for number in range(20):
            with pytest.raises(TokenError):
                await keys.find(f"invented-{number}")
        assert len(issuer.asked) == 1
        issuer.keys.append(jwk("stranger"))
        issuer.clock.advance(60_000)
        await keys.find("stranger")
        assert len(issuer.asked) == 2
        issuer.keys.pop(0)
        issuer.clock.advance(24 * 3_600_000)
        with pytest.raises(TokenError):
            await keys.find(KID)  # it was withdrawn


async def test_keys_outlive_a_short_failure_and_no_long_one() -> None:
    async with issuing() as issuer:
        keys = issuer.open()
        await keys.find(KID)
        issuer.broken = True
        issuer.clock.advance(71 * 3_600_000)
        await keys.find(KID)
        issuer.clock.advance(3_600_000)
        with pytest.raises(KeysUnavailableError):
            await keys.find(KID)
        issuer.broken = False
        issuer.clock.advance(60_000)
        await keys.find(KID)


async def test_without_keys_nothing_is_proven() -> None:
    async with issuing() as issuer:
        issuer.broken = True
        for _ in range(3):
            with pytest.raises(KeysUnavailableError):
                await verified(f"Bearer {token(CLAIMS)}", issuer.open(), RULES, issuer.clock)


async def test_keys_that_are_weak_or_for_something_else_are_left_out() -> None:
    weak = signing_key("weak", 1024)
    curve = ec.generate_private_key(ec.SECP256R1()).public_key().public_numbers()
    async with issuing() as issuer:
        issuer.keys = [
            jwk("weak", key=weak),
            jwk("encrypts", key=signing_key(), use="enc"),
            jwk("other", key=signing_key(), alg="RS512"),
            jwk("even", key=signing_key(), e="Ag"),
            jwk("broken", key=signing_key(), n="!!"),
            {"kid": "curve", "kty": "EC", "crv": "P-256", "x": encoded(curve.x.to_bytes(32))},
            jwk(),
        ]
        keys = issuer.open()
        for kid in ("weak", "encrypts", "other", "even", "broken", "curve"):
            with pytest.raises(TokenError):
                await keys.find(kid)
        await keys.find(KID)


async def test_what_is_signed_here_is_verified_there() -> None:
    async with issuing() as issuer:
        text = signed(CLAIMS, private_key(pem(signing_key())), KID)
        await verified(f"Bearer {text}", issuer.open(), RULES, issuer.clock)
    with pytest.raises(ValueError, match="PEM"):
        private_key("no key")


async def test_an_access_token_is_kept_until_shortly_before_its_end() -> None:
    forms: list[dict[str, Any]] = []

    async def handle(request: ServedRequest) -> ServedResponse:
        forms.append(request.form())
        return ServedResponse.of({"access_token": f"token-{len(forms)}", "expires_in": "3600"})

    clock = FakeClock()
    async with serve(handle) as url:
        access = AccessToken(AccountHttp([url]), f"{url}/token", lambda: {"a": "b c&d"}, clock)
        assert [await access.get(), await access.get()] == ["token-1", "token-1"]
        clock.advance(3_300_000)
        assert await access.get() == "token-2"
        access.drop()
        assert await access.get() == "token-3"
    assert forms == [{"a": "b c&d"}] * 3


@pytest.mark.parametrize(
    ("response", "is_login"),
    [
        (
            ServedResponse.of(
                {"error": "invalid_client", "error_description": "wrong\nsecret"}, 401
            ),
            True,
        ),
        (ServedResponse.of({"error": "temporarily_unavailable"}, 503), False),
        (ServedResponse(b"<html>", 400, "text/html"), False),
        (ServedResponse.of({}), False),
        (ServedResponse.of({"access_token": "x"}, 400), False),
    ],
    ids=range(5),
)
async def test_refused_credentials_are_told_from_a_server_that_fails(
    response: ServedResponse, *, is_login: bool
) -> None:
    async def handle(_: ServedRequest) -> ServedResponse:
        return response

    async with serve(handle) as url:
        access = AccessToken(AccountHttp([url]), f"{url}/token", dict, FakeClock())
        with pytest.raises(AccessError) as caught:
            await access.get()
    assert caught.value.is_login is is_login
    assert "\n" not in str(caught.value)
