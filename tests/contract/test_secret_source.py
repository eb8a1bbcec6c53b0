"""The contract of the sources of a secret: environment, file, program. A new one adds a row."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from skerry.config.secret_values import Fetcher
from skerry.model.errors import ConfigError

CANARY: Final = "canary-secret-value"
ID: Final = {"env": "THE_KEY", "file": "/openai/key", "exec": "openai/key"}
Fetch = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True)
class Source:
    """A source with one secret."""

    provider: dict[str, Any]
    environ: dict[str, str] = field(default_factory=dict)
    path: Path | None = None
    """File that others must not read or write; None where there is none."""

    def reference(self, name: str = "", provider: str = "box") -> dict[str, str]:
        kind = self.provider["source"]
        return {"source": kind, "provider": provider, "id": name or ID[kind]}


def environment(_: Path) -> Source:
    return Source({"source": "env", "allowlist": ["THE_KEY"]}, {"THE_KEY": CANARY, "OTHER": CANARY})


def file(home: Path) -> Source:
    path = home / "secrets.json"
    path.write_text(json.dumps({"openai": {"key": CANARY}, "empty": ""}), "utf-8")
    path.chmod(0o600)
    return Source({"source": "file", "path": str(path)}, path=path)


def program(home: Path) -> Source:
    path = home / "give"
    answer = json.dumps({"protocolVersion": 1, "values": {ID["exec"]: CANARY}})
    path.write_text(f"#!/bin/sh\ncat >/dev/null\necho '{answer}'\n", "utf-8")
    path.chmod(0o700)
    return Source({"source": "exec", "command": str(path)}, path=path)


Row = Callable[[Path], Source]
Make = Callable[[Mapping[str, Any], Mapping[str, str]], Fetch]
ROWS: Final[dict[str, Row]] = {"env": environment, "file": file, "exec": program}


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that nobody else can write to, nor to those above it."""
    base = Path(os.environ.get("HOME", "/")).resolve()
    with tempfile.TemporaryDirectory(dir=base, prefix=".skerry-test-") as made:
        yield Path(made)


def fetch(source: Source, reference: Mapping[str, str], make: Make = Fetcher) -> str:
    merged = {"token": dict(reference), "secrets": {"providers": {"box": source.provider}}}
    return make(merged, source.environ)(reference)


def refusal(source: Source, reference: Mapping[str, str], make: Make) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        fetch(source, reference, make)
    assert CANARY not in f"{caught.value}{caught.value.remedy}"
    return caught.value


def gives_its_secret(source: Source, make: Make) -> None:
    assert fetch(source, source.reference(), make) == CANARY


def refuses_a_name_that_it_does_not_have(source: Source, make: Make) -> None:
    refusal(source, source.reference("OTHER"), make)
    refusal(source, source.reference("/empty"), make)


def refuses_another_provider(source: Source, make: Make) -> None:
    assert "other" in str(refusal(source, source.reference(provider="other"), make))


def refuses_what_others_may_change_or_read(source: Source, make: Make) -> None:
    if source.path is not None:
        source.path.chmod(0o777)
        refusal(source, source.reference(), make)


Clause = Callable[[Source, Make], None]
CONTRACT: Final[list[Clause]] = [
    gives_its_secret,
    refuses_a_name_that_it_does_not_have,
    refuses_another_provider,
    refuses_what_others_may_change_or_read,
]


@pytest.mark.parametrize("clause", CONTRACT, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_source_keeps_the_contract(row: Row, clause: Clause, home: Path) -> None:
    clause(row(home), Fetcher)


class Loud(Fetcher):
    """Says the secret in its errors."""

    def __call__(self, reference: Mapping[str, Any]) -> str:
        try:
            return super().__call__(reference)
        except ConfigError as error:
            raise ConfigError(f"{error} Its secrets: {CANARY}.") from error


class Careless(Fetcher):
    """Returns its secret for every request, also one that other users may read."""

    def __call__(self, reference: Mapping[str, Any]) -> str:
        del reference
        return CANARY


@pytest.mark.parametrize(
    ("defect", "clause"),
    [
        (Loud, refuses_a_name_that_it_does_not_have),
        (Careless, refuses_what_others_may_change_or_read),
        (Careless, refuses_another_provider),
    ],
)
def test_a_source_with_a_defect_breaks_it(
    defect: type[Fetcher], clause: Clause, home: Path
) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        clause(file(home), defect)
