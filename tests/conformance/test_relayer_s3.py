"""The relayer's blobs in a bucket of S3, and the signature of its client."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import httpx2
import pytest

from skerry_relayer.assembly import MemoryOptions, opened
from skerry_relayer.errors import RefusedError
from skerry_relayer.folders import Folders
from skerry_relayer.ports import Query
from skerry_relayer.s3 import Bucket, RequestToSign, S3Blobs, bucket_of, signature_headers
from tests.support.embedding import Words
from tests.support.mocks import program
from tests.support.relayer_memory import delegate, stored


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


EXAMPLE = Bucket(
    "examplebucket",
    "",
    "https://examplebucket.s3.amazonaws.com",
    "us-east-1",
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
)


def test_the_signature_is_that_of_the_published_example() -> None:
    request = RequestToSign("GET", "examplebucket.s3.amazonaws.com", "/", "lifecycle=")
    headers = signature_headers(EXAMPLE, request, datetime(2013, 5, 24, tzinfo=UTC))
    assert headers["authorization"].endswith(
        "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
    )


def test_an_address_without_bucket_or_credentials_is_refused_with_the_remedy() -> None:
    with pytest.raises(RefusedError, match="s3://bucket/prefix"):
        bucket_of("walrus://x", {})
    with pytest.raises(RefusedError, match="AWS_ACCESS_KEY_ID"):
        bucket_of("s3://bucket", {})


async def test_a_store_that_does_not_answer_is_an_error_of_the_system() -> None:
    bucket = Bucket("b", "", f"http://127.0.0.1:{free_port()}", "us-east-1", "a", "b")
    async with S3Blobs(bucket) as blobs:
        with pytest.raises(OSError, match="ConnectError"):
            await blobs.get("0x" + "1" * 64, ["A" * 43])


@pytest.fixture
def endpoint() -> Iterator[str]:
    python = program("SKERRY_MOTO_PYTHON", ".venv-moto/bin/python")
    port = free_port()
    command = [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stderr=sys.stderr) as process:
        yield f"http://127.0.0.1:{port}"
        process.terminate()


@pytest.mark.full("moto")
async def test_memories_are_stored_restored_and_forgotten_in_a_bucket(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    async with httpx2.AsyncClient() as client:
        with anyio.fail_after(60):
            while True:
                try:
                    assert (await client.put(f"{endpoint}/memories")).is_success
                    break
                except httpx2.TransportError:
                    await anyio.sleep(0.1)
    caller = delegate(tmp_path).caller()
    options = MemoryOptions(tmp_path, blobs="s3://memories/some/prefix", embedder=Words())
    async with opened(options) as running:
        await stored(running.memories, caller, "Otto eats tuna.")
        await stored(running.memories, caller, "Berlin was cold.")
    for file in Folders(tmp_path).database.iterdir():
        file.unlink()
    async with opened(options) as running:
        assert (await running.memories.restore(caller, "default", 10)).restored == 2
        answer = await running.memories.recall(caller, Query("default", 1, "Who eats tuna"))
        assert [hit.text for hit in answer.hits] == ["Otto eats tuna."]
        assert await running.memories.forget_namespace(caller, "default") == 2
        assert (await running.memories.restore(caller, "default", 10)).total == 0
