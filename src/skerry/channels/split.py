"""Cuts a reply into parts that a platform takes (pure)."""


def split(text: str, limit: int) -> list[str]:
    """Return parts of at most `limit` characters, which joined are `text`, less parts of blanks.

    Cuts after the last line end in reach, else after the last space, else at the limit. Parts
    without a visible character are left out, because platforms refuse them.
    """
    parts: list[str] = []
    start = 0
    while len(text) - start > limit:
        end = start + limit
        cut = text.rfind("\n", start, end) + 1 or text.rfind(" ", start, end) + 1 or end
        parts.append(text[start:cut])
        start = cut
    parts.append(text[start:])
    return [part for part in parts if part.strip()]
