"""Imports the commands that OpenClaw ran unasked, each agent's after a person's consent."""

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
_CONSEQUENCE: Final = "these commands run unasked on this machine, where tools.exec.host is gateway"


class Patterns:
    """Patterns of the imported allowlist, for the agents of this gateway."""

    def __init__(self, home: Path, report: Report) -> None:
        self._entries: dict[str, list[FileEntry]] = {}
        self._report = report
        self._unknown_agents: set[str] = set()
        self._modes: dict[str, dict[str, str]] = {}
        path = home / FILE
        if not path.is_file() or not inside(home, path):
            return
        file = parse(path.read_bytes()) if path.stat().st_size <= MAX_BYTES else None
        if file is None:
            report.skip(FILE, "the file is damaged, too large, or of another version")
            return
        for entry in file.entries():
            if reason := problem(entry.pattern):
                report.skip(
                    f"{FILE}: {entry.pattern}", f"the pattern would match nothing: {reason}"
                )
                continue
            self._entries.setdefault(entry.agent, []).append(entry)
        self._modes = file.modes()
        for note in file.left_out():
            report.skip(FILE, note)

    def with_modes(self, tree: dict[str, Any]) -> dict[str, Any]:
        """Returns a configuration with the modes of the file, where they are stricter."""
        listed = lookup(tree, ("agents", "list"))
        names = [
            agent_id(str(entry.get("id", ""))) if isinstance(entry, dict) else ""
            for entry in (listed if isinstance(listed, list) else ())
        ]
        for name, modes in self._modes.items():
            key_path: KeyPath = ("tools", "exec")
            if name in names:
                key_path = ("agents", "list", names.index(agent_id(name)), *key_path)
            elif name != EVERY_AGENT and (names or name != MAIN_AGENT):
                self._report.skip(f"{FILE}: modes of {name}", "the configuration has no such agent")
                continue
            for key, value in modes.items():
                order = {"security": SECURITIES, "ask": ASKS}[key]
                present = lookup(tree, (*key_path, key))
                if present not in order or order.index(value) < order.index(present):
                    tree = replaced(tree, (*key_path, key), value)
        return tree

    def lines(self, config: Config, yes: Collection[str]) -> list[ProposedKey]:
        """Returns a question for each agent, or the consent that was given."""
        questions = []
        for agent, entries in self._entries.items():
            if agent not in {"*", *config.agents.ids}:
                if agent not in self._unknown_agents:
                    self._report.skip(f"{FILE}: {agent}", "the configuration has no such agent")
                self._unknown_agents.add(agent)
                continue
            key_path = (KEY, agent)
            outcome = (
                KeyOutcome.ACCEPTED if show_key_path(key_path) in yes else KeyOutcome.NEEDS_CONSENT
            )
            questions.append(
                ProposedKey(key_path, [entry.pattern for entry in entries], outcome, _CONSEQUENCE)
            )
        return questions

    async def bring(self, config: Config, lines: Sequence[ProposedKey]) -> None:
        """Adds the patterns that the person agreed to; keeps those that are listed already."""
        agreed = [line.key_path[-1] for line in lines if line.key_path[:1] == (KEY,)]
        agents = [agent for agent in agreed if agent in self._entries]
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
