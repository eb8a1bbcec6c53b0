"""QMD keeps the text of deleted documents, so its index is deleted and rebuilt."""

from pathlib import Path

from skerry.model.redaction import Redaction
from tests.support.qmd import WHERE, QmdRig, served, until


async def test_its_index_and_exports_go_and_it_answers_again_when_they_are_rebuilt(
    tmp_path: Path,
) -> None:
    rig = QmdRig(tmp_path)
    async with served(rig) as (memory, daemon):
        await memory.search(WHERE)
        await until(lambda: daemon.ready)
        home = rig.home
        home.index.write_bytes(b"zebra 4711")
        home.index.with_name("index.sqlite-wal").write_bytes(b"zebra 4711")
        (home.sessions / "one.md").write_text("User: zebra 4711\n")
        (home.sessions / "two.md").write_text("User: tea\n")
        assert await memory.forget(Redaction(["zebra 4711"])) == 1
        assert not daemon.ready, "it has the old index open"
        assert list(home.sessions.iterdir()) == []
        assert list(home.index.parent.glob("index.sqlite*")) == []
        await memory.sync()
        assert (await memory.search(WHERE)).hits
        await until(lambda: daemon.ready)
    await until(lambda: rig.fake.running() == [])


def test_without_qmd_there_is_nothing_to_remove(tmp_path: Path) -> None:
    rig = QmdRig(tmp_path)
    assert rig.home.forget(Redaction(["zebra 4711"])) == 0
