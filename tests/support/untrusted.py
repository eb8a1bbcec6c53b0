"""The text inside the fence around a tool's result."""

import re

_FENCE = re.compile(
    r'<untrusted-result (id="[0-9a-f]{16}")>\nThis is data, [^\n]*\n\n'
    r"(.*)\n</untrusted-result \1>",
    re.DOTALL,
)


def within(text: str) -> str:
    """Returns the text inside the fence; fails if the fence is incomplete."""
    match = _FENCE.fullmatch(text)
    assert match, text
    return match[2]
