"""Reads data sets from a folder; their fields determine their kind."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from skerry.features.memory.documents import date_of
from skerry_recall.chunk import chunks
from skerry_recall.passage import Passage

SESSION_LIMIT: Final = 40
"""Number of ranked passages when a session counts by its best passage."""
SPAN_LIMIT: Final = 64
RANKED: Final = ("recall@5", "recall@10", "ndcg@10", "mrr")
FIRST: Final = ("hit@1", "hit@5")
BUDGETS: Final = (1000, 2000, 4000, 8000, 16000)
"""Limits on the characters that a search returns."""
_ADVERSARIAL: Final = 5
"""The category of questions that the conversation does not answer."""


class NoDataError(Exception):
    """The folder has no data set of a known form; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class BenchQuery:
    """A query, and its relevant units or characters."""

    text: str
    gold: frozenset[str] = frozenset()
    """The relevant units."""
    spans: Sequence[tuple[str, int, int]] = ()
    """The relevant characters: file, begin and end."""
    now: int | None = None
    """Time of the question, in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class BenchScope:
    """Passages that are searched together, and the queries on them."""

    name: str
    passages: Sequence[Passage]
    units: Sequence[str]
    """Unit of each passage: a hit of the passage counts as a hit of the unit."""
    queries: Sequence[BenchQuery]
    offsets: Sequence[tuple[int, int]] = ()
    """Begin and end of each passage in its unit, where spans are scored."""


@dataclass(frozen=True, slots=True)
class BenchTrial:
    """Measurement under one name."""

    name: str
    kind: str
    """`turn`, `session`, `language`, `cross`, `chunking`, `notes`."""
    figures: Sequence[str]
    scopes: Sequence[BenchScope]
    limit: int = 10
    """Number of passages requested."""


@dataclass(slots=True)
class _Builder:
    """Numbers the passages of one scope."""

    passages: list[Passage] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    offsets: list[tuple[int, int]] = field(default_factory=list)
    documents: int = 0

    def add(self, unit: str, text: str, at: int | None = None) -> None:
        """Adds a file, cut into passages as the index does; its passages count as `unit`."""
        for number, chunk in enumerate(chunks(text)):
            self._put(number, chunk.text, unit, at)
            self.offsets.append((chunk.start, chunk.end))
        self.documents += 1

    def add_whole(self, passages: Sequence[tuple[str, str, int | None]]) -> None:
        """Adds a document from passages: unit, text, date."""
        for number, (unit, text, at) in enumerate(passages):
            self._put(number, text, unit, at)
        self.documents += 1

    def _put(self, number: int, text: str, unit: str, at: int | None = None) -> None:
        key = len(self.passages) + 1
        self.passages.append(Passage(key, self.documents, number, text, at=at))
        self.units.append(unit)


def trials(folder: Path, scopes: int | None = None) -> list[BenchTrial]:
    """Returns the measurements possible with the data sets in the folder, by name.

    `<name>.docs.jsonl` with `<name>.queries.jsonl` is a set of conversations if its rows have a
    `session`, and of paragraphs in several languages if they have a `lang`. `<name>.queries.jsonl`
    with the folder `<name>_corpora` asks for characters. `<name>.notes.json` has workspaces: files
    by path, the time of the queries, and queries with words of the answer. `scopes` limits the
    number of conversations.

    Raises:
        NoDataError: the folder has no data set.
    """
    trials_of_kinds: list[BenchTrial] = []
    for path in sorted(folder.glob("*.queries.jsonl")):
        name = path.name.removesuffix(".queries.jsonl")
        queries, documents = _rows(path), folder / f"{name}.docs.jsonl"
        corpora = folder / f"{name}_corpora"
        if documents.is_file():
            rows = _rows(documents)
            if rows and "session" in rows[0]:
                trials_of_kinds += _conversations(name, rows, queries, scopes)
            elif rows and "lang" in rows[0]:
                trials_of_kinds += _languages(name, rows, queries)
        elif corpora.is_dir():
            trials_of_kinds.append(_spans(corpora, queries))
    for path in sorted(folder.glob("*.notes.json")):
        trials_of_kinds += _notes(
            path.name.removesuffix(".notes.json"), json.loads(path.read_bytes())
        )
    if not trials_of_kinds:
        raise NoDataError(
            f"No data set in {folder}. Give a folder with <name>.docs.jsonl and"
            " <name>.queries.jsonl, or with <name>.notes.json, by --data, or by the variable"
            " SKERRY_DATA."
        )
    return trials_of_kinds


def _rows(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def _conversations(
    name: str, rows: list[dict[str, Any]], queries: list[dict[str, Any]], first: int | None
) -> Iterator[BenchTrial]:
    """Yields the trials of turns and of sessions: a session is a document."""
    turns, sessions = [], []
    for scope, scope_rows in list(_grouped(rows, "scope").items())[:first]:
        in_scope = [query for query in queries if query["scope"] == scope]
        by_turn, by_file = _Builder(), _Builder()
        session_of = {row["id"]: row["session"] for row in scope_rows}
        for session, turn_rows in _grouped(scope_rows, "session").items():
            lines = [f"{row['speaker']}: {row['text']}" for row in turn_rows]
            by_turn.add_whole(
                [(row["id"], line, _ms(row)) for row, line in zip(turn_rows, lines, strict=True)]
            )
            by_file.add(session, "\n".join(lines))
        answered = [(query, frozenset(query["evidence"]) & session_of.keys()) for query in in_scope]
        answered = [(query, gold) for query, gold in answered if gold]
        turns.append(
            _scope(
                scope,
                by_turn,
                [
                    BenchQuery(query["question"], gold)
                    for query, gold in answered
                    if query.get("category") != _ADVERSARIAL
                ],
            )
        )
        queries_with_gold = [
            BenchQuery(query["question"], frozenset(session_of[turn] for turn in gold))
            for query, gold in answered
        ]
        sessions.append(_scope(scope, by_file, queries_with_gold))
    yield BenchTrial(f"{name}.turn", "turn", RANKED, turns)
    yield BenchTrial(f"{name}.session", "session", RANKED, sessions, SESSION_LIMIT)


def _languages(
    name: str, rows: list[dict[str, Any]], queries: list[dict[str, Any]]
) -> Iterator[BenchTrial]:
    """Yields a trial for each language, and one of German queries on English text."""
    scopes: dict[str, BenchScope] = {}
    for lang, language_rows in _grouped(rows, "lang").items():
        builder = _Builder()
        for row in language_rows:
            builder.add(row["id"], row["text"])
        queries_of_set = [
            BenchQuery(query["question"], frozenset(query["evidence"]))
            for query in queries
            if query["lang"] == lang
        ]
        scopes[lang] = _scope(lang, builder, queries_of_set)
        yield BenchTrial(f"{name}.{lang}", "language", FIRST, [scopes[lang]])
    if "de" in scopes and "en" in scopes:
        crossed = [
            replace(query, gold=frozenset("en:" + unit.partition(":")[2] for unit in query.gold))
            for query in scopes["de"].queries
        ]
        scope = replace(scopes["en"], name="cross", queries=crossed)
        yield BenchTrial(f"{name}.cross", "cross", FIRST, [scope])


def _spans(corpora: Path, queries: list[dict[str, Any]]) -> BenchTrial:
    """Returns the trial of the relevant characters: all files of the folder are searched."""
    builder = _Builder()
    for path in sorted(corpora.glob("*.md")):
        with path.open(encoding="utf-8", newline="") as file:
            builder.add(path.stem, file.read())
    queries_of_set = [
        BenchQuery(
            query["question"],
            spans=[
                (query["corpus"], at["start_index"], at["end_index"]) for at in query["references"]
            ],
        )
        for query in queries
    ]
    figures = [f"recall@{budget}" for budget in BUDGETS]
    return BenchTrial(
        "chunking", "chunking", figures, [_scope("all", builder, queries_of_set)], SPAN_LIMIT
    )


def _notes(name: str, workspaces: list[dict[str, Any]]) -> Iterator[BenchTrial]:
    """Yields a trial for each workspace and one of all: a passage with the words is relevant."""
    scopes: list[BenchScope] = []
    for workspace in workspaces:
        builder = _Builder()
        for path, text in workspace["files"].items():
            builder.add("", text, date_of(path, "UTC"))
        builder.units = [str(passage.id) for passage in builder.passages]
        queries_of_set = [
            BenchQuery(
                row["ask"],
                frozenset(str(two.id) for two in builder.passages if row["has"] in two.text),
                now=workspace["now"],
            )
            for row in workspace["questions"]
        ]
        scopes.append(_scope(workspace["name"], builder, queries_of_set))
    for scope in scopes:
        yield BenchTrial(f"{name}.{scope.name}", "notes", FIRST, [scope])
    yield BenchTrial(f"{name}.all", "notes", FIRST, scopes)


def _scope(name: str, builder: _Builder, queries: Sequence[BenchQuery]) -> BenchScope:
    return BenchScope(name, builder.passages, builder.units, queries, builder.offsets)


def _grouped(rows: list[dict[str, Any]], by: str) -> Mapping[str, list[dict[str, Any]]]:
    """Groups the rows by the value of a field, in their order."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for value, some in groupby(rows, key=lambda row: row[by]):
        groups.setdefault(value, []).extend(some)
    return groups


def _ms(row: dict[str, Any]) -> int | None:
    if "time" not in row:
        return None
    return int(datetime.fromisoformat(row["time"]).replace(tzinfo=UTC).timestamp() * 1000)
