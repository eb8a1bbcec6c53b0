"""The method `config.get`: the configuration without its secrets."""

import base64
import hmac
import json
import re
from collections.abc import Iterable
from typing import Any, Final

import anyio.to_thread
import pyjson5
from pydantic import SecretStr

from skerry.gateway.auth import READ
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, NoParams

REDACTED: Final = "__OPENCLAW_REDACTED__"
_SECRET_KEY: Final = re.compile(
    r"token|api[-_]?key|secret|passw|passphrase|credential|authorization|private[-_]?key|cookie",
    re.IGNORECASE,
)
_USERINFO: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")
"""What stands before the @ of an address."""


async def config_get(call: Call, _params: NoParams) -> Json:
    """Return the file, what it says, and what holds with the defaults filled in."""
    config = call.context.config()

    def read() -> bytes | None:
        try:
            return config.path.read_bytes()
        except OSError:
            return None

    data = await anyio.to_thread.run_sync(read)
    held = config.model_dump(by_alias=True)
    known = [*_secrets(held), *([call.context.token] if call.context.token else [])]
    parsed = redact(_parse(data), known)
    resolved = redact(held, known)
    return {
        "path": str(config.path),
        "exists": data is not None,
        # Comments may hold secrets too, so the text is written anew from what was parsed.
        "raw": None if data is None else json.dumps(parsed, indent=2, ensure_ascii=False) + "\n",
        "parsed": parsed,
        "resolved": resolved,
        "config": resolved,
        "valid": True,
        "hash": _digest(data or b"", call.context.token or ""),
        "issues": [],
        "warnings": [],
        "legacyIssues": [],
    }


def redact(value: Any, known: Iterable[str]) -> Json:
    """Return `value` with every secret replaced: by type, by the name of its key, by its text."""
    texts = [text for text in known if text]
    return _redact(value, texts, hide=False)


def _redact(value: Any, known: list[str], *, hide: bool) -> Json:
    match value:
        case SecretStr():
            return REDACTED
        case dict():
            return {
                str(key): _redact(inner, known, hide=hide or bool(_SECRET_KEY.search(str(key))))
                for key, inner in value.items()
            }
        case list() | tuple():
            return [_redact(inner, known, hide=hide) for inner in value]
        case None | bool() | int() | float():
            return value
    text = str(value)
    if hide and text:
        return REDACTED
    for secret in known:
        text = text.replace(secret, REDACTED)
    return _USERINFO.sub(REDACTED, text)


def _secrets(value: Any) -> Iterable[str]:
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case dict():
            for inner in value.values():
                yield from _secrets(inner)
        case list() | tuple():
            for inner in value:
                yield from _secrets(inner)


def _parse(data: bytes | None) -> Json:
    if data is None:
        return {}
    try:
        return pyjson5.decode(data.decode())
    except (UnicodeDecodeError, pyjson5.Json5DecoderException):
        return {}


def _digest(data: bytes, key: str) -> str:
    """Return a keyed hash of the file: a plain one lets short secrets be found by trying."""
    made = hmac.digest(key.encode(), data, "sha256")
    return "hmac-sha256:v1:" + base64.urlsafe_b64encode(made).rstrip(b"=").decode()


METHODS: Final = (Method("config.get", READ, NoParams, config_get),)
