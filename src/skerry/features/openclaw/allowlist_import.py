"""Brings over the commands that OpenClaw ran unasked, agent by agent, each with a yes."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from skerry.app.build import open_state
from skerry.config.exec_approvals import ASKS, EVERY_AGENT, MAX_BYTES, SECURITIES, FileEntry, parse
from skerry.config.paths import KeyPath, lookup, replaced, show_key_path
from skerry.config.root import Config
from skerry.features.openclaw.home import inside
from skerry.features.openclaw.proposal import KeyOutcome, ProposedKey
from skerry.features.openclaw.report import Report
from skerry.infra.clock import SystemClock
from skerry.model.ids import MAIN_AGENT, agent_id
from skerry.policy.command_patterns import problem
from skerry.store import Unit, allowlist

FILE: Final = "exec-approvals.json"
KEY: Final = "exec-approvals"
"""First name of the key under which the patterns of an agent are listed."""
_BY: Final = "skerry import openclaw"
_WHY: Final = "these commands run unasked on this machine, where tools.exec.host is gateway"


class Patterns:
    """Patterns of the other installation, for the agents of ours."""

    def __init__(self, home: Path, report: Report) -> None:
        self._entries: dict[str, list[FileEntry]] = {}
        self._report = report
        self._without: set[str] = set()
        self._modes: dict[str, dict[str, str]] = {}
        path = home / FILE
        if not path.is_file() or not inside(home, path):
            return
        file = parse(path.read_bytes()) if path.stat().st_size <= MAX_BYTES else None
        if file is None:
            report.leave(FILE, "it is damaged, too large, or of another version")
            return
        for entry in file.entries():
            if why := problem(entry.pattern):
                report.leave(f"{FILE}: {entry.pattern}", f"it would match nothing: {why}")
                continue
            self._entries.setdefault(entry.agent, []).append(entry)
        self._modes = file.modes()
        for note in file.left_out():
            report.leave(FILE, note)

    def with_modes(self, tree: dict[str, Any]) -> dict[str, Any]:
        """Returns a configuration with the modes of the file, where they are stricter."""
        listed = lookup(tree, ("agents", "list"))
        names = [
            agent_id(str(entry.get("id", ""))) if isinstance(entry, dict) else ""
            for entry in (listed if isinstance(listed, list) else ())
        ]
        for name, modes in self._modes.items():
            place: KeyPath = ("tools", "exec")
            if name in names:
                place = ("agents", "list", names.index(agent_id(name)), *place)
            elif name != EVERY_AGENT and (names or name != MAIN_AGENT):
                self._report.leave(f"{FILE}: modes of {name}", "there is no such agent")
                continue
            for key, value in modes.items():
                order = {"security": SECURITIES, "ask": ASKS}[key]
                present = lookup(tree, (*place, key))
                if present not in order or order.index(value) < order.index(present):
                    tree = replaced(tree, (*place, key), value)
        return tree

    def lines(self, config: Config, yes: Collection[str]) -> list[ProposedKey]:
        """Returns a question for each agent, or the consent that was given."""
        made = []
        for agent, entries in self._entries.items():
            if agent not in {"*", *config.agents.ids}:
                if agent not in self._without:
                    self._report.leave(f"{FILE}: {agent}", "there is no such agent")
                self._without.add(agent)
                continue
            place = (KEY, agent)
            outcome = KeyOutcome.TAKEN if show_key_path(place) in yes else KeyOutcome.ASKED
            made.append(ProposedKey(place, [entry.pattern for entry in entries], outcome, _WHY))
        return made

    async def bring(self, config: Config, lines: Sequence[ProposedKey]) -> None:
        """Adds the patterns that the person agreed to; those that are there already stay."""
        taken = [line.place[-1] for line in lines if line.place[:1] == (KEY,)]
        agents = [agent for agent in taken if agent in self._entries]
        if not agents:
            return
        now = SystemClock().now_ms()

        def write(unit: Unit) -> None:
            for agent in agents:
                for entry in self._entries[str(agent)]:
                    allowlist.add(unit, str(agent), entry.pattern, "import", _BY, now)
                    if entry.last_used_at is not None:
                        note = (entry.last_command, entry.last_path, entry.last_used_at)
                        allowlist.used(unit, str(agent), (entry.pattern,), *note)

        async with open_state(config) as (store, _):
            await store.write(write)
