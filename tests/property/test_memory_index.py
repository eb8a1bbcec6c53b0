"""Whatever happens to the files, and whenever it dies: the index equals one that is made anew."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.infra.clock import SystemClock
from tests.support.shown import examples

PATHS = st.sampled_from(
    ["MEMORY.md", "memory.md", "memory/2026-05-08.md", "memory/a/b.md", "memory/c.md", "notes/d.md"]
)
TEXTS = st.one_of(
    st.lists(
        st.sampled_from(["boat", "ship\n", "Faro.", "\n\n", "käse", "船が", "x" * 90]), max_size=60
    )
    .map(" ".join)
    .map(str.encode),
    st.sampled_from([b"", b"a\0b", b"\xff\xfe", b"\n\n"]),
)
POINTS = [
    "index.commit", "index.committed", "swap.built", "swap.synced", "swap.closed", "swap.renamed",
]  # fmt: skip


class DiedError(Exception):
    """The process ended here."""


def state(index: Index) -> tuple[object, ...]:
    """Returns the contents of the index without row numbers, which differ."""
    with index.reading() as (tables, collection, behind):
        assert collection is not None
        assert behind == ""
        assert tables.ids() == collection.ids()
        rows = tables.rows(tables.ids()).values()
        passages = sorted(
            (
                row.path,
                row.passage.position,
                row.passage.text,
                row.passage.start_line,
                row.passage.end_line,
                row.passage.at or 0,
            )
            for row in rows
        )
        found = sorted(tables.rows(tables.matching('"boat"', 1000)))
        has = sorted(key for key in tables.ids() if "boat" in tables.rows([key])[key].passage.text)
        assert found == has
        return passages, tables.failed(), [count[:2] for count in tables.counts()]


class Files(RuleBasedStateMachine):
    """Edits, moves, deletions, syncs, full indexing and deaths, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.workspace = self.home / "workspace"
        self.workspace.mkdir()
        self.point = ""
        self.index = self.start("main")

    def teardown(self) -> None:
        self.index.close()
        shutil.rmtree(self.home)

    def start(self, name: str) -> Index:
        places = MemoryPaths(self.workspace, (Path("notes"),))
        made = IndexSettings(places, size=16, overlap=4)
        return Index(self.home / f"{name}.sqlite", made, SystemClock(), self.reach)

    def reach(self, point: str) -> None:
        if point == self.point:
            raise DiedError(point)

    @rule(path=PATHS, text=TEXTS)
    def write(self, path: str, text: bytes) -> None:
        target = self.workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)

    @rule(path=PATHS, text=TEXTS)
    def append(self, path: str, text: bytes) -> None:
        target = self.workspace / path
        if target.exists():
            target.write_bytes(target.read_bytes() + text)

    @rule(path=PATHS)
    def delete(self, path: str) -> None:
        (self.workspace / path).unlink(missing_ok=True)

    @rule(path=PATHS, to=PATHS)
    def move(self, path: str, to: str) -> None:
        if (self.workspace / path).exists():
            (self.workspace / to).parent.mkdir(parents=True, exist_ok=True)
            (self.workspace / path).replace(self.workspace / to)

    @rule(force=st.booleans())
    def sync(self, *, force: bool) -> None:
        self.index.sync(force=force)

    @rule()
    def search_first(self) -> None:
        self.index.freshen(5)

    @rule(force=st.booleans(), point=st.sampled_from(POINTS))
    def die(self, *, force: bool, point: str) -> None:
        self.point = point
        try:
            self.index.sync(force=force)
        except DiedError:
            pass
        finally:
            self.point = ""
        self.index.close()
        self.index = self.start("main")

    @rule(head=st.booleans())
    def rot(self, *, head: bool) -> None:
        self.index.close()
        path = self.index.database.path
        if path.exists():
            data = path.read_bytes()
            path.write_bytes(b"no database " + data[12:] if head else data[: len(data) // 2])
        self.index = self.start("main")

    @rule()
    def compare(self) -> None:
        self.index.sync()
        fresh = self.start("fresh")
        try:
            fresh.sync()
            assert state(self.index) == state(fresh)
        finally:
            fresh.close()
            for path in self.home.glob("fresh*"):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()


TestFiles = Files.TestCase
TestFiles.settings = settings(max_examples=examples(25), stateful_step_count=25, deadline=None)
