"""Tries the ways out and prints a line of JSON for each. It runs without anything of ours.

Every function gets the context and returns evidence that it got out, or None; an exception is None.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

Probe = Callable[[dict[str, str]], "str | None"]
MODULES = ("files", "processes", "network", "privileges", "kernel", "limits", "machine", "ends")
"""Modules beside this one; inside they belong to no package."""
SECONDS = 20


def probes() -> dict[str, Probe]:
    """Returns all probes by id."""
    found: dict[str, Probe] = {}
    for module in MODULES:
        found |= import_module(module).PROBES
    return found


def tried(probe: Probe, context: dict[str, str]) -> tuple[bool, str]:
    """Runs a probe in a process of its own; returns whether it got out, and the evidence."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        try:
            found = probe(context)
            text = "" if found is None else "!" + str(found)
        except BaseException as error:  # noqa: BLE001 - whatever stops a probe holds it
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode(errors="replace")[:2000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    os.waitpid(child, 0)
    return text.startswith("!"), text.removeprefix("!")


def main() -> int:
    context = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if os.environ.get("SKERRY_CONTAINED") != context["token"]:
        print("The harness did not say that this is contained.")  # noqa: T201 - its output
        return 3
    expected = set(sys.argv[2:])
    for name, probe in probes().items():
        if not expected or name in expected:
            out, detail = tried(probe, context)
            print(json.dumps({"id": name, "out": out, "detail": detail}), flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
