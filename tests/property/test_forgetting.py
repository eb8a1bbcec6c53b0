"""Whatever was said, however often and wherever: after forgetting no byte of it is left."""

import tempfile
from pathlib import Path

import anyio
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.model import message
from skerry.model.ids import AgentId, RunId, SessionId, SessionKey
from skerry.model.redaction import Redaction
from skerry.model.run import RunRequest
from skerry.store import DATABASE, Reader, Store, Unit, open_store, runs, sessions
from skerry.store.forgetting import begin, finish, incomplete, redact
from skerry.store.indexing import fill
from skerry.store.mirror import Mirror
from tests.support.shown import examples

KEY, ID = SessionKey.main(), SessionId("one")
PHRASE = "zebra quokka"
WORDS = st.sampled_from(
    [
        "Zebra quokka",
        "ZEBRA, quokka!",
        "zebra\nquokka",
        "tea",
        "It rains.",
        "x" * 700,
        "käse",
        "47",
        "\n",
    ]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)


@settings(max_examples=examples(25), deadline=None)
@given(
    said=st.lists(TEXTS, min_size=1, max_size=12),
    drafts=st.lists(TEXTS, max_size=4),
    label=TEXTS,
)
def test_no_byte_of_it_is_left_and_what_never_had_it_is_as_it_was(
    said: list[str], drafts: list[str], label: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(forget, Path(folder), said, drafts, label)


async def forget(home: Path, said: list[str], drafts: list[str], label: str) -> None:
    redaction = Redaction([PHRASE])
    mirror = Mirror(home / "agents", home)
    async with open_store(home / DATABASE, on_commit=mirror.touched.add) as store:
        await tell(store, said, drafts, label)
        await fill(store, [ID])
        await mirror.flush(store)
        before = await store.read(texts)
        serial = await store.write(lambda unit: begin(unit, AgentId("main"), [PHRASE], 1))
        redaction_counts = await redact(store, AgentId("main"), redaction)
        await mirror.rewrite(store, [ID])
        await finish(store, serial)
        assert await store.read(incomplete) == []
        after = await store.read(texts)
        assert len(after) == len(before)
        assert redaction_counts.entries == sum(map(redaction.holds, said))
        for old, new in zip(before, after, strict=True):
            assert new == old or redaction.holds(old)
        assert list(holding(home)) == []
    assert list(holding(home)) == []


async def tell(store: Store, said: list[str], drafts: list[str], label: str) -> None:
    def work(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, KEY, ID, 1)
        sessions.append(unit, session_id, tail, "r", [message.user(one, 1) for one in said], 1)
        unit.execute("UPDATE session SET label = ?", (label,))
        runs.add(unit, RunRequest(RunId("r"), KEY, said[0]), session_id, 2, 1)

    await store.write(work)
    for draft in drafts:  # each frees the pages of the one before

        def write(unit: Unit, draft: str = draft) -> None:
            unit.execute("UPDATE run SET partial = ?", (draft * 9,))

        await store.write(write)
    await store.write(lambda unit: unit.execute("UPDATE run SET partial = ''"))


def texts(reader: Reader) -> list[str]:
    rows = reader.all("SELECT body FROM entry ORDER BY seq")
    (run,) = reader.all("SELECT request FROM run")
    return [message.decode(body).text for (body,) in rows] + [msgspec.json.decode(run[0])["text"]]


def holding(home: Path) -> list[str]:
    """Returns the files with one of the words, other than `47`."""
    files = (path for path in home.rglob("*") if path.is_file() and path.suffix != ".sqlite-shm")
    return [
        file.name
        for file in files
        if not file.name.endswith("-shm")
        and any(w in file.read_bytes().lower() for w in (b"zebra", b"quokka"))
    ]
