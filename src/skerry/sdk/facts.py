"""Facts in a text, found by rules: the same as a relayer without a model finds."""

from datetime import date

from skerry_recall.statements import dated, folded, statements

__all__ = ("facts", "folded")


def facts(text: str, day: date | None = None) -> list[str]:
    """Returns the sentences that state something of people or of a day, each once.

    Days that count from `day`, such as "last Friday", are replaced by their dates.
    """
    facts_by_text: dict[str, str] = {}
    for sentence in statements(text):
        resolved = sentence if day is None else dated(sentence, day)
        facts_by_text.setdefault(folded(resolved), resolved)
    return list(facts_by_text.values())
