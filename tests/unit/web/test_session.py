"""Sending messages with `session.js`, run by Node; the gateway is a script."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import skerry

pytestmark = pytest.mark.full("Node")

SESSION = Path(skerry.__file__).parent / "web" / "session.js"
RUNNER = """
const { Session } = await import(process.argv[1]);
const { LostError, RefusedError } = await import(new URL("socket.js", process.argv[1]));
const asked = [];
const gateway = {
  online: false,
  markdown: { prepare: async () => {} },
  changed() {},
  probe() {},
  fullKey: () => "agent:main:main",
  request(method, params) {
    if (!gateway.online) return Promise.reject(new LostError());
    return new Promise((resolve, reject) => asked.push({ method, params, resolve, reject }));
  },
};
const session = new Session("main", gateway);
const sent = [];
const open = (method) => {
  const place = asked.findIndex((one) => one.method === method);
  return asked.splice(place, 1)[0];
};
const told = {
  connect: () => ((gateway.online = true), void session.catchUp()),
  lose: () => {
    gateway.online = false;
    for (const { reject } of asked.splice(0)) reject(new LostError());
  },
  write: (text) => session.write(text),
  history: () => open("chat.history").resolve({ sessionKey: "agent:main:main", messages: [] }),
  take: () => {
    const { params, resolve } = open("chat.send");
    sent.push(params.message);
    resolve({ status: "started" });
  },
  refuse: (error) => open("chat.send").reject(new RefusedError(error)),
  pause: (ms) => new Promise((done) => setTimeout(done, ms)),
};
for (const [name, ...parameters] of JSON.parse(process.argv[2])) {
  await told[name](...parameters);
  await new Promise((done) => setTimeout(done));
}
const states = session.conversation.outgoing.map(({ text, state }) => [text, state]);
const sends = asked.filter(({ method }) => method === "chat.send");
const offered = sends.map(({ params }) => params.message);
console.log(JSON.stringify({ sent, offered, states }));
"""
Step = Sequence[Any]

BUSY = {"code": "UNAVAILABLE", "message": "Wait.", "retryable": True, "retryAfterMs": 0}
WRONG = {"code": "INVALID_REQUEST", "message": "No."}


def play(*steps: Step) -> dict[str, Any]:
    """Returns the accepted messages, the answered messages, and the result of each."""
    node = shutil.which("node")
    assert node, "node is not installed"
    command = [node, "--input-type=module", "-e", RUNNER, SESSION.as_uri(), json.dumps(steps)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, Any] = json.loads(output)
    return result


def test_what_is_written_before_the_transcript_is_read_does_not_overtake_what_waited() -> None:
    early: list[Step] = [["write", "one"], ["connect"], ["write", "two"]]
    assert play(*early)["offered"] == ["one"]
    assert play(*early, ["take"], ["take"], ["history"])["sent"] == ["one", "two"]


def test_a_message_is_sent_once_the_one_before_it_is_taken() -> None:
    steps: list[Step] = [["connect"], ["history"], ["write", "one"], ["write", "two"]]
    result = play(*steps)
    assert result["offered"] == ["one"]
    assert result["states"] == [["one", "sending"], ["two", "waiting"]]
    result = play(*steps, ["take"])
    assert (result["sent"], result["offered"]) == (["one"], ["two"])
    assert result["states"] == [["one", "accepted"], ["two", "sending"]]


def test_one_that_is_to_come_again_later_keeps_its_place() -> None:
    steps: list[Step] = [
        ["connect"],
        ["history"],
        ["write", "one"],
        ["write", "two"],
        ["refuse", BUSY],
    ]
    result = play(*steps, ["pause", 20], ["take"], ["take"])
    assert result["sent"] == ["one", "two"]


def test_one_that_cannot_be_sent_holds_up_nobody() -> None:
    steps: list[Step] = [
        ["connect"],
        ["history"],
        ["write", "one"],
        ["write", "two"],
        ["refuse", WRONG],
    ]
    result = play(*steps, ["take"])
    assert result["sent"] == ["two"]
    assert result["states"] == [["one", "failed"], ["two", "accepted"]]


def test_what_was_on_its_way_when_the_connection_broke_is_sent_again_in_its_order() -> None:
    steps: list[Step] = [
        ["connect"],
        ["history"],
        ["write", "one"],
        ["write", "two"],
        ["take"],
        ["lose"],
    ]
    assert play(*steps)["states"] == [["one", "accepted"], ["two", "waiting"]]
    again: list[Step] = [["write", "three"], ["connect"], ["history"], ["take"], ["take"], ["take"]]
    assert play(*steps, *again)["sent"] == ["one", "one", "two", "three"]
