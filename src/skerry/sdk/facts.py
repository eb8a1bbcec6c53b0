"""Extraction of facts from text by rules, as in a relayer without a model."""

from datetime import date

from skerry_recall.statements import dated, folded, statements

__all__ = ("facts", "folded")


def facts(text: str, day: date | None = None) -> list[str]:
    """Returns the distinct sentences of `text` that state a fact about a person or a day.

    Relative days, such as "last Friday", are replaced by dates counted from `day`, if given.
    """
    facts_by_text: dict[str, str] = {}
    for sentence in statements(text):
        resolved = sentence if day is None else dated(sentence, day)
        facts_by_text.setdefault(folded(resolved), resolved)
    return list(facts_by_text.values())
