"""Namespace of an agent's memories, taken from the session key.

Source: seeds 000 and 001, "Multi-agent isolation"; memwal-contract 3.1.
"""

import hashlib
import re
import unicodedata
from typing import Final

MAIN: Final = "main"
_SESSION: Final = re.compile(r"agent:([^:]+):")
_SAFE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNSAFE: Final = re.compile(r"[^a-z0-9_-]+")
_SLUG: Final = 32


def agent_of(session_key: str) -> str:
    """Returns the agent that a session key names; `main` where it names none."""
    match = _SESSION.match(session_key)
    return match[1] if match else MAIN


def namespace_of(agent: str, default: str) -> str:
    """Returns the namespace of an agent: `default` of the main one, else made of its name.

    Names that differ in case only have one namespace. A name that is none of 1 to 64 letters,
    digits, `_` and `-` becomes a short form with a hash.
    """
    name = unicodedata.normalize("NFKC", agent).strip()
    if name.lower() == MAIN:
        return default
    if _SAFE.fullmatch(name):
        return name.lower()
    lower = name.lower()
    slug = _UNSAFE.sub("-", lower).strip("-")[:_SLUG] or "agent"
    return f"_h_{slug}_{hashlib.sha256(lower.encode()).hexdigest()}"
