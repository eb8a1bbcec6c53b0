"""A gateway with one defect planted, which the chaos suite must find: `--defect NAME`.

Run as `python -m tests.support.defects`, in a process of its own.
"""

import sys
from collections.abc import Callable
from typing import Any, Final

from skerry.model.ids import SessionKey
from skerry.routing import routing
from skerry.runtime import finalize, recovery
from skerry.runtime import run as running
from skerry.store import inbound, outbox
from skerry.testing.gateway import main

_recover, _settle, _take, _waiting = recovery.recover, finalize.settle, inbound.take, outbox.waiting


async def _forget(*_: Any) -> list[Any]:
    return []


async def _backwards(*given: Any) -> list[Any]:
    return (await _recover(*given))[::-1]


def _nothing(*_: Any) -> list[Any]:
    return []


def _unsaid(unit: Any, result: Any, tail: int, _: Any, *rest: Any) -> int:
    return _settle(unit, result, tail, (), *rest)


def _take_again(*given: Any) -> None:
    _take(*given)


def _last_first(*given: Any, **named: Any) -> list[Any]:
    return _waiting(*given, **named)[::-1]


def _everybodys(*_: Any, **__: Any) -> SessionKey:
    return SessionKey.main()


DEFECTS: Final[dict[str, tuple[object, str, Callable[..., Any]]]] = {
    "forgets what was open": (recovery, "recover", _forget),
    "takes up the last first": (recovery, "recover", _backwards),
    "closes without a word": (recovery, "end_notices", _nothing),
    "closes without an entry": (recovery, "settle", _unsaid),
    "keeps no answer": (running, "settle", _unsaid),
    "takes a message again": (inbound, "take", _take_again),
    "sends the last part first": (outbox, "waiting", _last_first),
    "has one conversation for all": (routing, "session_key", _everybodys),
}

CLOSING: Final = frozenset(
    {
        "closes without a word",
        "closes without an entry",
        "sends the last part first",
        "has one conversation for all",
    }
)
"""Seen where a run is closed: in these gateways none goes on behind its last step."""


def _plant(original: object, name: str, defect: Callable[..., Any]) -> None:
    """Puts the defect in place of a function in every module that has imported it."""
    for module in list(sys.modules.values()):
        if getattr(module, name, None) is original:
            setattr(module, name, defect)


def _closed(*_: Any) -> bool:
    return False


if __name__ == "__main__":
    at = sys.argv.index("--defect")
    planted = [DEFECTS[sys.argv[at + 1]]]
    if sys.argv[at + 1] in CLOSING:
        planted.append((recovery, "_can_continue", _closed))
    del sys.argv[at : at + 2]
    for module, name, defect in planted:
        if not hasattr(module, name):
            sys.exit(f"{module} has no {name}: the defect would change nothing")
        _plant(getattr(module, name), name, defect)
    sys.exit(main())
