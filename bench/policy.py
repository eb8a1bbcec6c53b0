"""CPU of the decision on a call of a tool by the policy, beside looking its name up in a set."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from bench.measure import figure
from skerry.config.check import check
from skerry.model.caller import Caller
from skerry.model.ids import SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.policy.access import Verb
from skerry.policy.decide import Actor, Request, decide
from skerry.policy.tool_names import CORE
from skerry.runtime.toolbox import tool_layers

ROUNDS = 7
REPEAT = 200
TREE = {
    "tools": {
        "profile": "coding",
        "alsoAllow": ["group:web", "message"],
        "deny": ["nodes", "canv*"],
        "byProvider": {"openai": {"deny": ["process"]}, "openai/m": {"allow": ["*"]}},
        "elevated": {"allowFrom": {"telegram": ["1"]}},
        "sandbox": {"tools": {"deny": ["browser"]}},
        "guests": {"allow": ["read", "web_*"]},
    },
    "agents": {"list": [{"id": "main", "tools": {"deny": ["cron"]}}]},
    "channels": {"telegram": {"groups": {"5": {"toolsBySender": {"id:1": {"deny": ["write"]}}}}}},
}
"""Every layer has a list."""


def microseconds(decide_all: Callable[[], object], count: int) -> float:
    """Returns the CPU microseconds of one decision, the median of the rounds."""
    rounds = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(REPEAT):
            decide_all()
        rounds.append((time.process_time() - begun) * 1e6 / REPEAT / count)
    return statistics.median(rounds)


def main() -> None:
    """Prints the figure."""
    home = Path("/nonexistent/skerry")
    config = check(TREE, state_dir=home, path=home / "skerry.json")[0]
    key = SessionKey.parse("agent:main:telegram:group:5")
    caller = Caller(key, PeerKind.GROUP, Origin.OWNER, channel="telegram", sender=("id:1",))
    names = sorted(CORE)
    actor = Actor.of(caller, frozenset({Origin.WEB}))

    def decided() -> None:
        # As a run does at each call: the layers are looked up, then asked.
        for name in names:
            layers = tool_layers(config, caller, ("openai", "m"))
            decide(Request(actor, Verb.USE, name, effect=Verb.USE, tools=layers, is_call=True))

    decision = microseconds(decided, len(names))
    set_lookup = microseconds(lambda: [name in CORE for name in names], len(names))
    figure(
        "CPU of the policy's decision on a call, us",
        "<= 50",
        f"{decision:.1f}",
        f"a set {set_lookup:.2f}",
    )


if __name__ == "__main__":
    main()
