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
    """Returns the agent of a session key; `main` if the key has none."""
    match = _SESSION.match(session_key)
    return match[1] if match else MAIN


def namespace_of(agent: str, default: str) -> str:
    """Returns the namespace of an agent: `default` for the main agent, else derived from its name.

    Names that differ only in case share a namespace. A name that does not consist of 1 to 64
    letters, digits, `_` and `-` is replaced by a short form with a hash.
    """
    name = unicodedata.normalize("NFKC", agent).strip()
    if name.lower() == MAIN:
        return default
    if _SAFE.fullmatch(name):
        return name.lower()
    lower = name.lower()
    slug = _UNSAFE.sub("-", lower).strip("-")[:_SLUG] or "agent"
    return f"_h_{slug}_{hashlib.sha256(lower.encode()).hexdigest()}"
