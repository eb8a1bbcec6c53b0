"""A small MCP server without the SDK, for tests that need many or hostile ones.

`python small_mcp.py SCRIPT` reads the JSON file SCRIPT for each list: `tools` is the list, and
`calls` has the outcome of calls by tool: `{"text": ...}`, `"hang"`, `"exit"`, `"flood"`, `"noise"`
or `"environment"`. `start` may be `"silent"` or `"exit"`. It notes each method in SCRIPT.log.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def main(path: Path) -> None:
    """Answers requests until the input ends."""
    log = path.with_suffix(".log")
    start = script(path).get("start", "")
    note(log, f"pid {os.getpid()}")
    if start == "exit":
        sys.exit("no key for the weather service")
    for line in sys.stdin:
        message = json.loads(line)
        note(log, message["method"])
        if "id" in message and start != "silent":
            answer = answered(message, path)
            if answer is not None:
                send({"jsonrpc": "2.0", "id": message["id"], **answer})


def script(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text())
    return read


def note(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text + "\n")


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answered(message: dict[str, Any], path: Path) -> dict[str, Any] | None:
    match message["method"]:
        case "initialize":
            info = {"name": "small", "version": "1"}
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": info,
            }
            return {"result": result}
        case "tools/list":
            return {"result": {"tools": script(path).get("tools", [])}}
        case "tools/call":
            return called(message["params"], path)
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


def called(params: dict[str, Any], path: Path) -> dict[str, Any] | None:
    outcome = script(path).get("calls", {}).get(params["name"], {"text": "done"})
    match outcome:
        case "hang":
            return None
        case "exit":
            os._exit(3)
        case "flood":
            sys.stdout.write("x" * 9_000_000)
            sys.stdout.flush()
            time.sleep(60)
            return None
        case "noise":
            sys.stdout.write("a log line on the wrong stream\n{}\n[1]\n")
            outcome = {"text": "done"}
        case "environment":
            outcome = {"text": json.dumps(dict(os.environ))}
        case "changed":
            send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            outcome = {"text": "done"}
        case {"error": text}:
            return {"error": {"code": -32000, "message": text}}
        case _:
            pass
    content = outcome.get("content") or [{"type": "text", "text": outcome.get("text", "")}]
    return {"result": {"content": content, "isError": outcome.get("isError", False)}}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
