"""The memory `qmd` over a program that succeeds or fails as the test sets."""

import json
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from skerry.config.memory_qmd import QmdConfig
from skerry.features.memory.qmd_process import QmdError
from skerry.model.memory import (
    MemoryMode,
    MemoryQuestion,
    MemorySource,
    MemoryStartingError,
    SyncReport,
)
from tests.support.qmd import MINUTE, WHERE, QmdRig, until


@pytest.fixture
def rig(tmp_path: Path) -> QmdRig:
    return QmdRig(tmp_path)


@pytest.mark.requirement("qmd-commands")
@pytest.mark.requirement("qmd-custom-collections")
@pytest.mark.requirement("qmd-result-paths")
async def test_it_registers_collections_indexes_and_finds(rig: QmdRig) -> None:
    memory = rig.memory(searchMode="search")
    report = await memory.sync()
    assert report == SyncReport(unchanged=2)
    answer = await memory.search(WHERE)
    (hit,) = answer.hits
    assert (hit.path, hit.text) == (
        "qmd/memory-dir/memory/2026-01-01.md",
        "The harbour opens at 7.",
    )
    assert (answer.backend, answer.mode) == ("qmd", MemoryMode.TEXT)
    calls = [" ".join(call[:2]) for call in rig.fake.calls()]
    assert calls[:5] == ["collection list", *["collection add"] * 3, "update --index"]
    root = str(rig.workspace)
    added = rig.fake.calls("collection")[1]
    assert added == [
        "add",
        root,
        "--name",
        "memory-root",
        "--mask",
        "MEMORY.md",
        "--index",
        "index",
    ]
    (query,) = rig.fake.calls("query")
    assert query[:5] == ["lex: harbour", "--json", "-n", "6", "--no-rerank"]
    assert query.count("-c") == 3


@pytest.mark.requirement("qmd-env")
@pytest.mark.requirement("qmd-storage-layout")
async def test_it_has_folders_of_the_agent_and_no_keys(rig: QmdRig) -> None:
    rig.fake.command.write_text(f"#!/bin/sh\nenv > {rig.fake.folder}/env\nexit 1\n", "utf-8")
    with pytest.raises(QmdError, match="failed with code 1"):
        await rig.memory().sync()
    text = (rig.fake.folder / "env").read_text("utf-8")
    environ = dict(line.split("=", 1) for line in text.splitlines())
    assert environ["XDG_CONFIG_HOME"] == str(rig.home.folder / "xdg-config")
    assert environ["XDG_CACHE_HOME"] == str(rig.home.folder / "xdg-cache")
    assert (environ["NO_COLOR"], environ["QMD_HOST"]) == ("1", "127.0.0.1")
    assert "OPENAI_API_KEY" not in environ
    assert rig.home.index == rig.home.folder / "xdg-cache/qmd/index.sqlite"
    assert rig.home.folder.stat().st_mode & 0o777 == 0o700


async def test_a_changed_collection_is_registered_again_and_the_same_is_not(rig: QmdRig) -> None:
    extra = rig.workspace / "extra"
    extra.mkdir()
    (extra / "a.md").write_text("lighthouse\n", "utf-8")
    paths = [{"path": "extra", "name": "Extra!"}]
    await rig.memory(paths=paths).sync()
    before = len(rig.fake.calls("collection"))
    await rig.memory(paths=paths).sync()
    assert [call[0] for call in rig.fake.calls("collection")[before:]] == ["list"]
    paths[0]["pattern"] = "b*.md"
    memory = rig.memory(paths=paths)
    await memory.sync()
    verbs = [call[:2] for call in rig.fake.calls("collection")[before + 1 :]]
    assert verbs == [
        ["list", "--index"],
        ["remove", "extra"],
        ["add", str(extra)],
    ]
    assert (await memory.search(MemoryQuestion("lighthouse"))).hits == []


async def test_a_question_before_the_first_index_is_for_the_next_memory(rig: QmdRig) -> None:
    with pytest.raises(MemoryStartingError, match="not indexed"):
        await rig.memory().search(WHERE)
    assert rig.fake.calls() == []


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("hang", "did not"),
        ("segfault", "segmentation fault"),
        ("garbage", "not the expected JSON"),
        ("wrong", "not the expected JSON"),
        ("flood", "more than 200000 bytes"),
        ("missing", "Collection not found"),
    ],
)
async def test_a_query_that_goes_wrong_is_an_error_and_leaves_no_process(
    rig: QmdRig, how: str, text: str
) -> None:
    memory = rig.memory(limits={"timeoutMs": 1500 if how == "hang" else 30_000})
    await memory.sync()
    rig.fake.behave(query=how)
    with anyio.fail_after(60), pytest.raises(QmdError, match=text):
        await memory.search(WHERE)
    await until(lambda: rig.fake.running() == [])
    rig.fake.behave()
    await memory.sync()
    assert len((await memory.search(WHERE)).hits) == 1, "and it recovers"


async def test_a_grandchild_that_stays_neither_delays_the_answer_nor_lives_on(
    rig: QmdRig,
) -> None:
    memory = rig.memory(limits={"timeoutMs": 30_000})
    await memory.sync()
    rig.fake.behave(query="orphan")
    with anyio.fail_after(60):
        assert len((await memory.search(WHERE)).hits) == 1
    await until(lambda: rig.fake.running() == [])


@pytest.mark.parametrize("how", ["hang", "segfault", "flood"])
async def test_an_update_that_fails_is_told_and_the_old_index_serves(rig: QmdRig, how: str) -> None:
    memory = rig.memory(update={"timeoutMs": 3000})
    await memory.sync()
    rig.fake.behave(update=how)
    with anyio.fail_after(60), pytest.raises(QmdError, match="update"):
        await memory.sync()
    await until(lambda: rig.fake.running() == [])
    assert len((await memory.search(WHERE)).hits) == 1
    assert "update" in (await memory.status()).notes[0]


@pytest.mark.parametrize("version", ["v20.20.2", "v21.9.9", "nonsense"])
async def test_an_old_node_is_refused_before_anything_is_started(rig: QmdRig, version: str) -> None:
    rig.fake.use_node(version)
    memory = rig.memory()
    with pytest.raises(QmdError, match="needs Node 22") as caught:
        await memory.sync()
    assert "Install Node 22 or newer" in caught.value.remedy
    assert rig.fake.calls() == []
    with pytest.raises(QmdError, match="needs Node 22"):
        await memory.search(WHERE)
    status = await memory.status()
    assert version in status.notes[0]
    assert "Install Node 22" in status.notes[0]


async def test_a_program_that_is_not_there_names_the_remedy(rig: QmdRig) -> None:
    memory = rig.memory(command="no-such-qmd")
    with pytest.raises(QmdError, match="is not installed") as caught:
        await memory.sync()
    assert "npm install -g @tobilu/qmd" in caught.value.remedy


def test_a_command_is_a_name_or_an_absolute_path() -> None:
    with pytest.raises(ValueError, match="absolute path"):
        QmdConfig(command="./qmd")


async def test_meaning_is_compared_only_where_its_model_is(rig: QmdRig) -> None:
    memory = rig.memory()
    await memory.sync(force=True)
    assert (await memory.search(WHERE)).mode is MemoryMode.TEXT
    assert rig.fake.calls("embed") == [], "without its model it would hang, or fetch it"
    assert "qmd pull" in (await memory.status()).notes[0]
    rig.with_model()
    await memory.sync(force=True)
    assert len(rig.fake.calls("embed")) == 1
    answer = await memory.search(WHERE)
    assert (answer.mode, answer.provider) == (MemoryMode.HYBRID, "qmd")
    assert rig.fake.calls("query")[-1][0] == "lex: harbour\nvec: Where is the harbour"
    await rig.memory(searchMode="vsearch").sync()


@pytest.mark.requirement("qmd-rerank-optional")
async def test_hits_are_reranked_only_where_that_model_is_and_it_is_wanted(rig: QmdRig) -> None:
    rig.with_model()
    memory = rig.memory(rerank=True)
    await memory.sync()
    await memory.search(WHERE)
    assert "--no-rerank" in rig.fake.calls("query")[-1]
    (rig.home.models / "hf_x_qwen3-reranker-0.6b-q8_0.gguf").write_bytes(b"")
    await memory.search(WHERE)
    assert "--no-rerank" not in rig.fake.calls("query")[-1]
    unwanted = rig.memory()  # reranking is off by default
    await unwanted.sync()
    await unwanted.search(WHERE)
    assert "--no-rerank" in rig.fake.calls("query")[-1]


async def test_models_that_the_person_has_are_shared(rig: QmdRig) -> None:
    shared = rig.fake.folder / ".cache/qmd/models"
    shared.mkdir(parents=True)
    (shared / "hf_ggml-org_embeddinggemma-300M-Q8_0.gguf").write_bytes(b"")
    await rig.memory().sync()
    assert rig.home.has_model()
    assert not rig.home.has_model("rerank")


async def test_words_that_mean_something_to_qmd_are_only_words(rig: QmdRig) -> None:
    memory = rig.memory()
    await memory.sync()
    for text in ('"harbour', "-harbour", "lex: harbour\nvec: x", "?!", ""):
        answer = await memory.search(MemoryQuestion(text))
        assert len(answer.hits) == (1 if "harbour" in text else 0)
    for call in rig.fake.calls("query"):
        assert not set('"-') & set(call[0])


async def test_the_question_says_how_many_hits_it_wants(rig: QmdRig) -> None:
    for number in range(9):
        (rig.workspace / f"memory/{number}.md").write_text("harbour\n", "utf-8")
    memory = rig.memory()
    await memory.sync()
    for limit, found in ((50, 10), (8, 8), (1, 1)):  # the tool cuts to `memory.qmd.limits`
        assert len((await memory.search(MemoryQuestion("harbour", limit=limit))).hits) == found


@pytest.mark.parametrize("serves", [False, True])
async def test_a_damaged_index_is_told_in_a_sentence_and_rebuilt_by_itself(
    rig: QmdRig, *, serves: bool
) -> None:
    memory = rig.memory(update={"debounceMs": 0})
    async with anyio.create_task_group() as tasks:
        if serves:
            tasks.start_soon(memory.run)
            await until(lambda: rig.fake.calls("update"))
        await memory.sync()
        rig.home.index.write_bytes(b"rot" * 2000)
        with pytest.raises(QmdError, match="file is not a database") as error:
            await memory.search(WHERE)
        assert len(str(error.value)) < 120
        assert not set("/^{") & set(str(error.value))
        with anyio.fail_after(60):
            if serves:
                while "was damaged" not in (await memory.status()).notes[0]:
                    rig.clock.advance(MINUTE)
                    await anyio.sleep(0.05)
            await memory.sync()
        assert len((await memory.search(WHERE)).hits) == 1
        assert "rebuilt" in (await memory.status()).notes[0]
        tasks.cancel_scope.cancel()


async def test_a_sync_that_finds_a_damaged_index_rebuilds_it(rig: QmdRig) -> None:
    memory = rig.memory()
    await memory.sync()
    rig.home.index.write_bytes(b"rot" * 2000)
    await memory.sync(force=True)
    assert len((await memory.search(WHERE)).hits) == 1


@pytest.mark.requirement("memory-session-export")
@pytest.mark.requirement("memory-session-retention")
async def test_conversations_are_exported_before_each_update_and_found(rig: QmdRig) -> None:
    async def export(folder: Path) -> Mapping[str, str]:
        (folder / "abc.md").write_text("User: where is the harbour?\n", "utf-8")
        return {"abc.md": "agent:main:main"}

    memory = rig.memory(export=export)
    await memory.sync()
    question = MemoryQuestion("harbour", sources=frozenset({MemorySource.SESSIONS}))
    (hit,) = (await memory.search(question)).hits
    assert (hit.path, hit.session) == ("qmd/sessions/abc.md", "agent:main:main")
    document = await memory.document(hit.path)
    assert document is not None
    assert (document.text, document.session) == ("User: where is the harbour?\n", "agent:main:main")
    off = rig.memory(export=export, sessions={"enabled": False})
    await off.sync()
    assert (await off.search(question)).hits == []
    assert await off.document(hit.path) is None


async def test_a_document_is_a_markdown_file_of_a_collection(rig: QmdRig) -> None:
    (rig.workspace / "memory/link.md").symlink_to(rig.workspace / "MEMORY.md")
    memory = rig.memory()
    await memory.sync()
    memory_document = await memory.document("qmd/memory-root/MEMORY.md")
    assert memory_document is not None
    assert memory_document.text == "# Facts\nThe cat is Momo.\n"
    for path in ("memory-dir/memory/link.md", "memory-dir/../x.md", "no/x.md", "memory-dir/x.md"):
        assert await memory.document(f"qmd/{path}") is None


@pytest.mark.requirement("memory-cycle-boot")
@pytest.mark.requirement("memory-cycle-periodic")
@pytest.mark.requirement("memory-cycle-embed")
async def test_it_updates_at_the_start_and_in_its_cycles(rig: QmdRig) -> None:
    rig.with_model()
    memory = rig.memory()

    async def done(minutes: float) -> tuple[int, int]:
        rig.clock.advance(round(minutes * MINUTE))
        await memory.work()
        return len(rig.fake.calls("update")), len(rig.fake.calls("embed"))

    assert await done(0) == (1, 1)
    assert await done(4.9) == (1, 1)
    assert await done(0.1) == (2, 1)
    assert await done(50) == (3, 1)
    assert await done(5) == (4, 2)


@pytest.mark.requirement("memory-cycle-debounce")
@pytest.mark.requirement("qmd-config-update")
async def test_a_change_is_indexed_after_15_seconds_without_another(rig: QmdRig) -> None:
    memory = rig.memory()
    await memory.work()
    rig.clock.advance(1000)
    memory.touch()
    rig.clock.advance(13_999)
    await memory.work()
    assert len(rig.fake.calls("update")) == 1
    rig.clock.advance(1)
    await memory.work()
    assert len(rig.fake.calls("update")) == 2
    rig.clock.advance(MINUTE)
    memory.touch()
    rig.clock.advance(1500)
    await memory.work()
    assert len(rig.fake.calls("update")) == 3


async def test_a_failed_cycle_is_logged_with_its_remedy_and_tried_again(
    rig: QmdRig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.fake.use_node("v20.1.0")
    memory = rig.memory()
    await memory.work()
    assert "Install Node 22" in caplog.text
    rig.fake.use_node("v22.0.0")
    rig.clock.advance(5 * MINUTE)
    await memory.work()
    assert len((await memory.search(WHERE)).hits) == 1


async def test_jobs_that_are_asked_for_at_once_share_one(rig: QmdRig) -> None:
    memory = rig.memory()
    await memory.sync()
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(memory.sync)
    assert len(rig.fake.calls("update")) == 2
    rig.fake.behave(update="die")
    failed = []

    async def fail() -> None:
        with pytest.raises(QmdError, match="code 7"):
            await memory.sync()
        failed.append(True)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(fail)
    assert len(failed) == 3
    assert len(rig.fake.calls("update")) == 3


async def test_the_record_of_collections_may_be_broken(rig: QmdRig) -> None:
    await rig.memory().sync()
    record = json.loads(rig.home.record.read_bytes())
    assert record["memory-root"] == [str(rig.workspace), "MEMORY.md"]
    rig.home.record.write_text("{", "utf-8")
    memory = rig.memory()
    await memory.sync()
    assert len((await memory.search(WHERE)).hits) == 1
