"""A parrot: a plugin that is a separate process, and needs only Python.

One JSON object a line is read from standard input and written to standard output. Logs belong to
standard error, or into the notification `log`.
"""

import json
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

REFUSED = -32000
"""Code of an error whose message is shown to people."""


class RefusedError(Exception):
    """An expected error: its message is for the person or the model."""


class Gateway:
    """The other end of the pipes. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[int, tuple[threading.Event, dict[str, Any]]] = {}
        self._number = 0

    def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """Calls a method of the gateway, such as `transcripts.since`, and waits for the answer."""
        with self._lock:
            self._number += 1
            number = self._number
        answered: tuple[threading.Event, dict[str, Any]] = (threading.Event(), {})
        self._answers[number] = answered
        self.write({"id": number, "method": method, "params": params})
        answered[0].wait()
        if "error" in answered[1]:
            raise RefusedError(answered[1]["error"]["message"])
        return answered[1].get("result")

    def note(self, method: str, params: Mapping[str, Any]) -> None:
        """Sends a notification: `log`, or `event`."""
        self.write({"method": method, "params": params})

    def write(self, tree: Mapping[str, Any]) -> None:
        """Writes one line."""
        with self._lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **tree}) + "\n")
            sys.stdout.flush()

    def answered(self, line: dict[str, Any]) -> None:
        """Passes the answer of the gateway to the waiting caller."""
        waiting = self._answers.pop(line["id"], None)
        if waiting is not None:
            waiting[1].update(line)
            waiting[0].set()


class Parrot:
    """The parts of the plugin: a method for each method of the protocol."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._word = ""
        self._said = 0
        self._read = 0
        self._stopped = threading.Event()

    def register(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the parts of the plugin."""
        self._word = params["config"]["word"]
        text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        repeat = {"name": "parrot_repeat", "description": "Repeat a text.", "parameters": text}
        return {
            "tools": [repeat],
            "commands": [{"name": "squawk", "description": "squawks", "acceptsArguments": True}],
            "methods": [{"name": "said", "scope": "operator.read"}],
            "hooks": [{"name": "message_received"}, {"name": "before_prompt_build"}],
            "services": ["listen"],
            "events": [{"name": "heard", "text": "Somebody said something."}],
            "routes": [{"path": "said", "methods": ["GET", "POST"]}],
            "init": True,
            "shutdown": True,
        }

    def init(self, _: Mapping[str, Any]) -> None:
        """Starts."""
        self._gateway.note("log", {"level": "info", "text": "the parrot is awake"})

    def tool(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Runs the tool."""
        text = params["arguments"]["text"]
        if "secret" in text:
            raise RefusedError("The parrot repeats no secrets. Leave the word out.")
        return {"text": f"{self._word}: {text}", "details": {"words": len(text.split())}}

    def command(self, params: Mapping[str, Any]) -> str:
        """Answers `/squawk`."""
        return f"{self._word} {params['arguments']}".strip()

    def method(self, _: Mapping[str, Any]) -> dict[str, int]:
        """Answers the gateway method `parrot.said`."""
        return {"said": self._said, "read": self._read}

    def hook(self, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Handles a hook: counts a message, or adds a line to the prompt."""
        if params["hook"] == "message_received":
            self._said += 1
            self._gateway.note("event", {"name": "heard", "payload": {"said": self._said}})
            return None
        return {"prepend_context": f"The parrot says {self._word}."}

    def route(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Answers `GET /plugins/parrot/said`."""
        return {"text": f"{params['method']} {self._said}\n"}

    def service(self, _: Mapping[str, Any]) -> None:
        """Follows the messages, until it is cancelled or the gateway has ended."""
        cursor = self._gateway.ask("transcripts.latest", {})
        while not self._stopped.is_set():
            self._gateway.ask("transcripts.wait", {"cursor": cursor})
            rows = self._gateway.ask("transcripts.since", {"cursor": cursor})
            self._read += sum(row["role"] == "user" for row in rows)
            cursor = rows[-1]["serial"] if rows else cursor

    def shutdown(self, _: Mapping[str, Any]) -> None:
        """Ends."""
        self._stopped.set()
        self._gateway.note("log", {"level": "info", "text": "the parrot sleeps"})


def answer(
    gateway: Gateway, call: Callable[[Mapping[str, Any]], Any], line: dict[str, Any]
) -> None:
    """Answers one request; an unexpected error is not shown, but written to standard error."""
    try:
        gateway.write({"id": line["id"], "result": call(line.get("params", {}))})
    except RefusedError as error:
        gateway.write({"id": line["id"], "error": {"code": REFUSED, "message": str(error)}})
    except Exception as error:  # noqa: BLE001 - the gateway counts it, and continues
        traceback.print_exc()
        gateway.write({"id": line["id"], "error": {"code": 1, "message": repr(error)}})


def main() -> None:
    """Reads lines until the gateway closes the pipe; each request has a thread."""
    gateway = Gateway()
    parrot = Parrot(gateway)
    for text in sys.stdin:
        line = json.loads(text)
        if "method" not in line:
            gateway.answered(line)
        elif "id" in line:
            call = getattr(parrot, line["method"])
            threading.Thread(target=answer, args=(gateway, call, line), daemon=True).start()


if __name__ == "__main__":
    main()
