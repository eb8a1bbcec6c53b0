"""Extracts facts from a conversation by rules, or by a model."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Protocol

from skerry_recall.statements import dated, folded, importance, statements

from .ports import Fact

MAX_FACTS: Final = 20
MAX_CHARACTERS: Final = 1000
"""Maximum length of one fact, in characters."""


class Extractor(Protocol):
    """Extracts facts from texts and answers questions from memories."""

    @property
    def name(self) -> str:
        """`rules` or `model`; shown in `/health`."""
        ...

    @property
    def version(self) -> str:
        """Version of the prompt or of the rules."""
        ...

    async def extract(
        self, text: str, occurred_at: datetime | None, memories: Sequence[str]
    ) -> list[Fact]:
        """Returns facts of `text` that are not in `memories`, at most `MAX_FACTS`.

        Dates relative to the time of the conversation are resolved if `occurred_at` is given.
        Raises `DownError` when a model is needed and does not answer.
        """
        ...

    async def answer(self, question: str, memories: Sequence[str]) -> str:
        """Returns an answer from `memories`, best first; it is never empty."""
        ...


class Rules:
    """Extracts declarative sentences as facts; needs no model."""

    name = "rules"
    version = "extract.rules.3"

    async def extract(
        self, text: str, occurred_at: datetime | None, memories: Sequence[str]
    ) -> list[Fact]:
        """Returns the sentences of `text` with statements about people, with dates resolved."""
        known_texts = {folded(memory) for memory in memories}
        facts: list[Fact] = []
        for sentence in statements(text):
            resolved = sentence if occurred_at is None else dated(sentence, occurred_at.date())
            if folded(resolved) in known_texts:
                continue
            known_texts.add(folded(resolved))
            facts.append(Fact(resolved[:MAX_CHARACTERS], importance(sentence)))
            if len(facts) == MAX_FACTS:
                break
        return facts

    async def answer(self, _question: str, memories: Sequence[str]) -> str:
        """Returns the memories unchanged; a model would phrase an answer."""
        if not memories:
            return "No memory answers this question."
        return "\n".join(["From your memories:", *(f"- {memory}" for memory in memories)])
