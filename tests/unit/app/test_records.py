"""Records of files have an end: those of files that are gone."""

from functools import partial
from pathlib import Path

from skerry.app.records import KEPT_MS, KEPT_TAINTED_MS, forget_gone
from skerry.model.origin import Origin
from skerry.policy.file_records import FileRecord
from skerry.store import DATABASE, file_records, open_store


async def test_records_of_files_that_are_gone_end_and_tainted_ones_a_year_later(
    tmp_path: Path,
) -> None:
    (tmp_path / "there").touch()
    paths = {name: str(tmp_path / name) for name in ("there", "gone", "tainted")}
    paths["elsewhere"] = "/no/such/disk/file"
    async with open_store(tmp_path / DATABASE) as store:
        for name, path in paths.items():
            taint = frozenset({Origin.WEB} if name == "tainted" else set())
            one = FileRecord(path, b"x" * 32, 1, "main", taint)
            await store.write(partial(file_records.keep, record=one, now=0))

        async def left(now: int) -> set[str]:
            await forget_gone(store, now)
            there = {record.path for record in await store.read(file_records.every)}
            return {name for name, path in paths.items() if path in there}

        assert await left(KEPT_MS) == paths.keys()
        assert await left(KEPT_MS + 1) == {"there", "tainted", "elsewhere"}
        assert await left(KEPT_TAINTED_MS + 1) == {"there", "elsewhere"}
