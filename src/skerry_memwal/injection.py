"""Decides whether a text looks like an instruction to the model instead of a memory.

The detector is that of the gateway, which folds look-alike letters and invisible characters first.
Three patterns of seed 001 are only hints to it and decide here: tags of roles, orders to run a
tool or command, and the words "system prompt".
"""

import re
from functools import lru_cache
from typing import Final

from skerry.sdk.guard import fold, scan

_TAG: Final = re.compile(r"<\s{0,3}/?\s{0,3}(?:system|assistant|developer|tool|function)\b")
_PROMPT: Final = re.compile(r"\bsystem\s{1,3}prompts?\b")
_ORDER: Final = re.compile(
    r"(?:^|[.!?:;\n]\s{0,3}|\b(?:please|now|then|must|should|you (?:need|have) to)\s{1,3})"
    r"(?:run|execute|call|invoke)\b[^.\n]{0,40}\b(?:tool|command)s?\b"
)


MAX_CACHED: Final = 2_000
"""Maximum length of a text whose result is cached: prompts repeat the same memories."""


def is_injection(text: str) -> bool:
    """Returns whether a text looks like an instruction to a model; it is not stored or recalled."""
    if not text:
        return False
    return _cached(text) if len(text) <= MAX_CACHED else _judged(text)


def _judged(text: str) -> bool:
    folded = fold(text).text.lower()
    if _TAG.search(folded) or _PROMPT.search(folded) or _ORDER.search(folded):
        return True
    return scan(text).flagged


_cached: Final = lru_cache(maxsize=512)(_judged)
