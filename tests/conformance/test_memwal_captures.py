"""Real requests of the official MemWal clients, replayed: each gets the answer of the contract."""

import base64
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import anyio
import pytest

from skerry_relayer.signatures import SIGNED
from tests.support.relayer import Lab

FILE: Final = Path(__file__).parents[1] / "data" / "memwal-captures.jsonl"
OWNERS: Final = "/v1/owners/0x" + "ab" * 32 + "/namespaces"
ACCEPTED: Final = {
    **dict.fromkeys(("/health", "/version", "/config", "/sui"), 200),
    **dict.fromkeys(("/api/recall", "/api/ask", "/api/restore", "/api/stats", "/api/embed"), 200),
    **dict.fromkeys(("/api/remember", "/api/remember/bulk", "/api/analyze"), 202),
    "/api/remember/bulk/status": 200,
    # The vectors of the captures have one or two numbers, and the owner is another one.
    "/api/remember/manual": 400,
    "/api/recall/manual": 400,
    OWNERS: 403,
    "/sui/sui.rpc.v2.LedgerService/BatchGetObjects": 404,
}
"""Status of the answer by path."""


@dataclass(frozen=True)
class Capture:
    """One request as it crossed the wire."""

    client: str
    at: float
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @classmethod
    def read(cls, row: dict[str, Any]) -> Self:
        headers = tuple((name.lower(), value) for name, value in row["headers"])
        body = base64.b64decode(row["body"])
        return cls(row["client"], row["t"], row["method"], row["path"], headers, body)

    @property
    def is_signed(self) -> bool:
        return "x-nonce" in dict(self.headers)

    def status(self) -> int:
        """Returns the status that the contract gives."""
        path = self.target.partition("?")[0]
        if "x-signature" in dict(self.headers) and not self.is_signed:
            return 426
        if path == "/api/remember/manual" and b"encrypted_data" not in self.body:
            return 422
        if path.startswith("/api/remember/") and path not in ACCEPTED:
            return 404  # a job of the server that was captured
        return ACCEPTED[path]

    async def send(self, lab: Lab) -> tuple[int, bytes]:
        answer = await lab.http.request(
            self.method, self.target, content=self.body, headers=list(self.headers)
        )
        return answer.status_code, answer.content


def captures() -> list[Capture]:
    _, *lines = FILE.read_text(encoding="utf-8").splitlines()
    return [Capture.read(json.loads(line)) for line in lines]


CAPTURES: Final = captures()


def test_all_captures_are_there() -> None:
    assert len(CAPTURES) == 83
    assert sum(capture.is_signed for capture in CAPTURES) == 55


@pytest.mark.parametrize("number", range(83))
async def test_a_captured_request_gets_the_status_of_the_contract(
    tmp_path: Path, number: int
) -> None:
    capture, lab = CAPTURES[number], Lab(tmp_path)
    lab.clock.now = capture.at
    async with lab.http:
        assert (await capture.send(lab))[0] == capture.status()
        if capture.is_signed:
            assert await capture.send(lab) == (401, b"")
    lab.relayer.nonces.close()


async def test_clients_without_nonces_are_told_to_upgrade_and_nothing_is_stored(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path)
    legacy = [capture for capture in CAPTURES if capture.status() == 426]
    async with lab.http:
        for capture in legacy:
            lab.clock.now = capture.at
            assert await capture.send(lab) == (426, b"")
    assert {capture.client for capture in legacy} == {"typescript-sdk-0.0.1-npm"}
    assert lab.memory.rows == []
    lab.relayer.nonces.close()


def mutations(capture: Capture, chance: random.Random) -> Iterator[Capture]:
    """Yields changed requests, each different in one of the six signed fields or its signature."""
    for name, value in capture.headers:
        if name not in SIGNED:
            continue
        position = chance.randrange(len(value))
        others = "0123456789abcdef".replace(value[position].lower(), "")
        changed = value[:position] + chance.choice(others) + value[position + 1 :]
        cases = (changed, value[:-1], value + "0", "", value.upper(), f" {value}x", value[::-1])
        for case in cases:
            if case.strip() != value:
                yield replace(capture, headers=_with(capture, name, case))
        yield replace(capture, headers=tuple(h for h in capture.headers if h[0] != name))
        yield replace(capture, headers=(*capture.headers, (name, value)))
    if capture.body:
        flipped = bytearray(capture.body)
        flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        yield replace(capture, body=bytes(flipped))
        yield replace(capture, body=capture.body[:-1])
    yield replace(capture, body=capture.body + b" ")
    yield replace(capture, target=capture.target + ("&" if "?" in capture.target else "?") + "a=1")
    yield replace(capture, target=capture.target + "/")
    yield replace(capture, method="GET" if capture.method == "POST" else "POST")


def _with(capture: Capture, name: str, value: str) -> tuple[tuple[str, str], ...]:
    return tuple((n, value if n == name else v) for n, v in capture.headers)


async def test_of_thousands_of_changed_requests_none_is_accepted(tmp_path: Path) -> None:
    lab, chance = Lab(tmp_path), random.Random(14)  # noqa: S311 - reproducible
    signed = [capture for capture in CAPTURES if capture.is_signed]
    changed = [case for capture in signed for case in mutations(capture, chance)]
    assert len(changed) > 2000
    statuses: list[int] = []

    async def send(case: Capture) -> None:
        statuses.append((await case.send(lab))[0])

    async with lab.http:
        for at in {capture.at for capture in signed}:
            lab.clock.now = at
            async with anyio.create_task_group() as tasks:
                for case in changed:
                    if case.at == at:
                        tasks.start_soon(partial(send, case))
        # Whoever cannot sign cannot use up nonces either: the original is accepted afterwards.
        for capture in signed:
            lab.clock.now = capture.at
            assert (await capture.send(lab))[0] == capture.status()
    assert len(statuses) == len(changed)
    assert set(statuses) <= {401, 404, 405, 426}
    lab.relayer.nonces.close()
