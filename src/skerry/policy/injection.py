"""Detects instructions to a model that are injected into a text (pure).

One detector for all untrusted text: tool results, pages, messages, memory. The text is folded
(`folding`), compared with patterns, and scored by a linear model over hashed features;
`scripts/train_injection.py` computes the weights. The result is a weak signal: a flagged text is
marked, never dropped, and the fence and the rights of the run apply to all untrusted text, flagged
or not. Sources: seeds 000 and 001 for the patterns; security notes 3.
"""

import re
import struct
from array import array
from collections.abc import Iterable, Iterator
from functools import cache
from math import exp, log2
from pathlib import Path
from typing import Final

from msgspec import Struct

from skerry.policy.folding import FoldedText, fold
from skerry.policy.injection_features import BUCKETS, features

MAX_CHARS: Final = 65_536
"""Maximum characters that are examined; of a longer text the start and the end are examined."""
_MAX_WINDOW: Final = 2500
"""Maximum characters of a text that is examined as one window."""
_WINDOW: Final = 900
_OVERLAP: Final = 100
_CAUTION: Final = 0.6
"""Logit that is added to the threshold for each doubling of the number of windows."""
_WEIGHTS: Final = "injection_weights.bin"
HEADER: Final = struct.Struct("<4sff")
"""Header of the weights file: magic, value of one step, bias; then one signed byte per weight."""
MAGIC: Final = b"SKI1"
_SUSPICION: Final = 0.5
_DECIDED: Final = 1.0
"""Minimum logit of a text that matches a pattern of `DECISIVE`, or has text in tag characters."""

PATTERNS: Final = {
    "ignore-instructions": re.compile(
        r"\b(?:ignor|disregard|forget|overrid|bypass|discard|neglect)\w{0,4}\b"
        r"(?:[^\w\n]{1,3}\w{1,20}){0,4}?[^\w\n]{1,3}"
        r"(?:instructions?|directions?|directives?|guidelines?|rules|prompts?|orders|guidance)\b",
    ),
    "do-not-follow": re.compile(
        r"\bdo\s{1,3}not\s{1,3}(?:follow|obey)\s{1,3}(?:the\s{1,3})?(?:system|developer)\b",
    ),
    "system-prompt": re.compile(r"\bsystem\s{1,3}(?:prompt|instructions)\b"),
    "role-tag": re.compile(
        r"<\s{0,3}/?\s{0,3}(?:system|assistant|developer|tool|function)\b", re.IGNORECASE
    ),
    "run-tool": re.compile(
        r"\b(?:run|execute|call|invoke)\b.{0,40}\b(?:tool|command)\b", re.IGNORECASE
    ),
    "role-heading": re.compile(
        r"^#{2,4} ?(?:instruction|system|human|assistant)s?:?\s{0,3}$",
        re.MULTILINE,
    ),
    "role-line": re.compile(
        r"^\W{0,3}(?:system|assistant|developer)"
        r"(?: (?:message|notice|override|prompt|note))?\W{0,2}:",
        re.MULTILINE,
    ),
    "fence-mark": re.compile(
        r"<[\s/]{0,4}(?:untrusted|recalled-memor|memwal-memor|relevant-memor|external)",
    ),
    "new-role": re.compile(
        r"\byou\s{1,3}are\s{1,3}now\s{1,3}(?:an?|in|the|dan|un\w{1,12})\b"
        r"|\bdo\s{1,3}anything\s{1,3}now\b|\b(?:developer|debug|god|maintenance)\s{1,3}mode\b",
    ),
    "secret-request": re.compile(
        r"\b(?:reveal|print|show|leak|expose|send|repeat|output|disclose)\b"
        r"(?:[^\w\n]{1,3}\w{1,20}){0,5}?[^\w\n]{1,3}"
        r"(?:passwords?|secrets?|credentials|tokens?|api[ _]?keys?|private keys?|instructions)\b",
    ),
    "no-approval": re.compile(
        r"\bwithout\s{1,3}(?:asking|telling|informing|confirmation|approval|notifying)\b"
        r"|\b(?:pre-?|already\s{1,3})(?:approved|authori[sz]ed)\b",
    ),
}
"""Phrases of attacks. A match is a feature of the model, and its name is shown to the person."""


_ORDER: Final = (
    r"(?:^|[.!?:;\n>*#-]\s{0,3}|\b(?:please|now|must|should|then|and|to you)[,:]?\s{1,3})"
)
_WORDS: Final = r"(?:[^\w\"'“.!?:;|<>]{1,3}\w{1,20}){0,6}?[^\w\"'“.!?:;|<>]{1,3}"
DECISIVE: Final = {
    "override-order": re.compile(
        _ORDER
        + r"(?:ignore|disregard|forget|override|bypass)\b"
        + _WORDS
        + r"(?:instructions?|directions?|directives?|guidelines?|rules|prompts?|guidance)\b",
    ),
    "obey-order": re.compile(
        _ORDER + r"do\s{1,3}not\s{1,3}(?:follow|obey)\s{1,3}(?:the\s{1,3}|your\s{1,3})?"
        r"(?:system|developer)\b",
    ),
    "run-order": re.compile(
        r"\byou\s{1,3}(?:must|should|need\s{1,3}to|have\s{1,3}to)\s{1,3}(?:now\s{1,3})?"
        r"(?:run|execute|call|invoke)\b[^.\n]{0,40}\b(?:tool|command)\b|"
        + _ORDER
        + r"(?:run|execute|call|invoke|use)\s{1,3}(?:the|this|your)\s{1,3}"
        r"(?:(?:shell|bash|terminal|exec|following)\s{1,3}(?:tool|command)\b|"
        r"(?:tool|function)\s{1,3}`?[a-z]{2,20}(?:_[a-z]{2,20})?`?\s{1,3}(?:with|and|to)\b)",
    ),
    "prompt-request": re.compile(
        _ORDER
        + r"(?:reveal|print|show|output|repeat|display|expose|leak|tell|give)\b"
        + _WORDS
        + r"(?:system\s{1,3}(?:prompt|instructions)|(?:hidden|secret|initial)\s{1,3}"
        r"(?:prompt|instructions)|your\s{1,3}(?:prompt|instructions))\b"
        r"|\bwhat(?:'s|\s{1,3}is|\s{1,3}are)\s{1,3}your\s{1,3}(?:system\s{1,3})?"
        r"(?:prompt|instructions)\b",
    ),
    "role-order": re.compile(
        r"<\s{0,3}(?:system|developer|assistant)\s{0,3}>[^<\n]{0,60}?"
        r"\b(?:you|your|must|ignore|reveal|obey|remove|send|now|will)\b",
    ),
    "chat-mark": re.compile(r"<\|[a-z_]{2,20}\|>|\[/?inst\]|<</?sys>>"),
}
"""Phrases that are an order to a model in any context: a match flags the text."""


_NEEDED: Final = {
    "override-order": ("ignore", "disregard", "forget", "override", "bypass"),
    "obey-order": ("follow", "obey"),
    "run-order": ("run", "execute", "call", "invoke", "use "),
    "prompt-request": ("prompt", "instructions"),
    "role-order": ("system", "developer", "assistant"),
    "chat-mark": ("<|", "inst]", "sys>"),
    "ignore-instructions": ("gnor", "disregard", "forg", "overrid", "bypass", "discard", "negle"),
    "do-not-follow": ("follow", "obey"),
    "system-prompt": ("system",),
    "role-tag": ("<",),
    "run-tool": ("tool", "command"),
    "role-heading": ("##",),
    "role-line": ("system", "assistant", "developer"),
    "fence-mark": ("<",),
    "new-role": ("you are now", "anything now", " mode"),
    "secret-request": (
        "reveal",
        "print",
        "show",
        "leak",
        "expos",
        "send",
        "repeat",
        "output",
        "disclos",
    ),
    "no-approval": ("without", "approved", "authori"),
}
"""Words by pattern; a text that matches the pattern has one of them. They are searched first, which
is fast."""


class Scan(Struct, frozen=True):
    """Result of examining one text."""

    flagged: bool
    score: float
    """From 0 to 1; a text is flagged from 0.5 on."""
    matches: tuple[str, ...]
    """Names of patterns and of ways of hiding; `model` if only the score flags the text."""


def scan(text: str) -> Scan:
    """Returns the score of the text as an instruction to a model, and the matches.

    At most `MAX_CHARS` characters are examined, a long text in windows; the highest score decides.
    The threshold grows with the number of windows, because each may be a false alarm. The time is
    linear.
    """
    if not text:
        return Scan(flagged=False, score=0.0, matches=())
    if len(text) > MAX_CHARS:
        text = text[: MAX_CHARS // 2] + "\n" + text[-MAX_CHARS // 2 :]
    parts = [text] if len(text) <= _MAX_WINDOW else list(windows(text, _WINDOW, _OVERLAP))
    chances = _CAUTION * log2(len(parts))
    worst, matches = 0.0, dict[str, None]()
    for window in parts:
        score, names = _score(window, chances)
        worst = max(worst, score)
        matches.update(dict.fromkeys(names))
    flagged = worst >= _SUSPICION
    if flagged and not matches:
        matches["model"] = None
    return Scan(flagged, round(worst, 4), tuple(matches))


def marked(folded: FoldedText) -> list[str]:
    """Returns the names of the patterns that match a folded text or a text decoded from it."""
    text = "\n".join((folded.text, *folded.decoded)).lower()
    return [
        name
        for patterns in (DECISIVE, PATTERNS)
        for name, pattern in patterns.items()
        if any(word in text for word in _NEEDED[name]) and pattern.search(text)
    ]


def windows(text: str, width: int, overlap: int) -> Iterator[str]:
    """Yields parts of at most `width` characters that end at the end of a line if possible.

    Each part begins `overlap` characters before the end of the previous part.
    """
    start = 0
    while start < len(text):
        end = start + width
        if end < len(text):
            line = text.rfind("\n", start + width // 2, end)
            end = line + 1 if line > 0 else end
        yield text[start:end]
        if end >= len(text):
            return
        start = end - overlap


def _score(window: str, chances: float) -> tuple[float, list[str]]:
    folded = fold(window)
    names = marked(folded)
    step, bias, weights = _model()
    total = 0.0
    for bucket, value in features(folded, names).items():
        total += weights[bucket] * value
    logit = decided(max(-30.0, min(30.0, total * step + bias - chances)), names, folded)
    return 1 / (1 + exp(-logit)), [*names, *sorted(folded.hints)]


def decided(logit: float, names: Iterable[str], folded: FoldedText) -> float:
    """Returns the logit, raised if a pattern or hidden text is sufficient to flag the text."""
    if "tags" in folded.hints or not DECISIVE.keys().isdisjoint(names):
        return max(logit, _DECIDED)
    return logit


@cache
def _model() -> "tuple[float, float, array[int]]":
    """Returns the value of one step, the bias and the weights; the file is read once.

    Raises:
        ValueError: the file is no file of weights.
    """
    data = Path(__file__).with_name(_WEIGHTS).read_bytes()
    if len(data) != HEADER.size + BUCKETS or data[:4] != MAGIC:
        raise ValueError(f"{_WEIGHTS}: not a file of {BUCKETS} weights. Install the package again.")
    _, step, bias = HEADER.unpack_from(data)
    return step, bias, array("b", data[HEADER.size :])
