"""Decides on a command for a host: allow it, ask a person, or deny it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from skerry.config.exec import Ask, Security
from skerry.features.exec import analysis, git_config, patterns, safe_bins
from skerry.features.exec.programs import SEARCH_PATH, Resolved, is_on_path, resolve
from skerry.features.exec.shell_words import RefusedCommandError, Simple
from skerry.policy.command_patterns import Pattern, PatternError, parse
from skerry.policy.command_runners import PRIVILEGED, is_runner
from skerry.policy.command_wrappers import Peeled, is_wrapper, peel
from skerry.policy.effect import ToolEffect

_ALLOWED: Final = "allowlist"


class ExecRules(Struct, frozen=True):
    """Settings that decide on commands."""

    security: Security = "allowlist"
    ask: Ask = "on-miss"
    allowlist: tuple[str, ...] = ()
    """Patterns of the allowlist. An invalid pattern matches nothing."""
    safe_bins: tuple[str, ...] = safe_bins.DEFAULT
    search_path: tuple[str, ...] = SEARCH_PATH
    cwd: Path | None = None
    """Working directory of the command; None when unknown."""
    root: Path | None = None
    """Workspace of the agent."""


class SegmentDecision(Struct, frozen=True):
    """Decision on one simple command."""

    argv: tuple[str, ...]
    program: str | None
    """Resolved path of the program after its wrappers; None when it is not trusted."""
    decision: ToolEffect
    rule: str
    reason: str = ""
    pattern: str | None = None
    """Pattern of the allowlist that the command matches."""
    remembered: str | None = None
    """Pattern that "allow always" would add; None where it must not be offered."""

    def as_json(self) -> dict[str, Any]:
        """Returns the published fields."""
        return {
            "argv": list(self.argv),
            "program": self.program,
            "decision": self.decision.value,
            "rule": self.rule,
        }


class CommandDecision(Struct, frozen=True):
    """Decision on a whole command line."""

    decision: ToolEffect
    rule: str
    reason: str
    segments: tuple[SegmentDecision, ...] = ()
    """Its simple commands; empty for a line with other parts."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """Patterns that "allow always" would add; empty where it must not be offered."""
        missing = [part for part in self.segments if part.decision is not ToolEffect.ALLOW]
        new = tuple(dict.fromkeys(part.remembered for part in missing if part.remembered))
        return new if all(part.remembered for part in missing) else ()

    @property
    def used(self) -> tuple[str, ...]:
        """Patterns of the allowlist that the commands match."""
        return tuple(dict.fromkeys(part.pattern for part in self.segments if part.pattern))

    def as_json(self) -> dict[str, Any]:
        """Returns the published fields."""
        return {
            "decision": self.decision.value,
            "rule": self.rule,
            "reason": self.reason,
            "segments": [segment.as_json() for segment in self.segments],
        }


async def check(command: str, rules: ExecRules) -> CommandDecision:
    """Returns the decision on a command line.

    Security `deny` refuses and `full` allows. Otherwise each simple command must be a safe bin or
    match a pattern; if one does not, `ask` decides: `off` refuses, the other modes ask. With
    `always` a person is asked about each command that is not refused.
    """
    miss = ToolEffect.DENY if rules.security == "deny" or rules.ask == "off" else ToolEffect.ASK
    try:
        reading = await analysis.read(command)
    except RefusedCommandError as error:
        return _settled(rules, CommandDecision(miss, error.rule, error.reason))
    judge = _Judge(rules, miss)
    distinct = {simple: judge.segment(simple) for simple in dict.fromkeys(reading.commands)}
    segments = tuple(distinct[simple] for simple in reading.commands)
    missing = next((part for part in segments if part.decision is not ToolEffect.ALLOW), None)
    if missing is not None:
        return _settled(rules, CommandDecision(miss, missing.rule, missing.reason, segments))
    names = sorted({part.rule for part in segments})
    reason = "each command is a safe bin or matches a pattern"
    return _settled(rules, CommandDecision(ToolEffect.ALLOW, " ".join(names), reason, segments))


def _settled(rules: ExecRules, decision: CommandDecision) -> CommandDecision:
    """Applies the modes `security` and `ask` to a decision."""
    if rules.security == "deny":
        return _all(decision, ToolEffect.DENY, "security-deny", "the security of commands is deny")
    if rules.security == "full":
        decision = _all(
            decision, ToolEffect.ALLOW, "security-full", "the security of commands is full"
        )
    if rules.ask == "always":
        reason = f"a person is asked about every command ({decision.rule}: {decision.reason})"
        return CommandDecision(ToolEffect.ASK, "ask-always", reason, decision.segments)
    return decision


def _all(decision: CommandDecision, effect: ToolEffect, rule: str, reason: str) -> CommandDecision:
    segments = tuple(
        SegmentDecision(part.argv, part.program, effect, rule, reason) for part in decision.segments
    )
    return CommandDecision(effect, rule, reason, segments)


class _Judge:
    """Decides on simple commands."""

    def __init__(self, rules: ExecRules, miss: ToolEffect) -> None:
        self._rules = rules
        self._miss = miss

    def segment(self, simple: Simple) -> SegmentDecision:
        """Returns the decision on one command."""
        peeled = peel(simple.argv)
        program = resolve(peeled.argv[0], self._rules.search_path)
        real = program.real if program else None
        unusable = self._unusable(peeled, program)
        if program is None or unusable:
            return SegmentDecision(simple.argv, real, self._miss, *unusable)
        runs = not peeled.is_complete or is_runner(peeled.argv, program.name, _base(program.real))
        allowed = self._allowed(simple, peeled, program, runs=runs)
        if allowed is not None and program.name == "git" and (problem := self._repository(peeled)):
            return SegmentDecision(simple.argv, real, self._miss, "git-config", problem)
        if allowed is not None:
            return SegmentDecision(simple.argv, real, ToolEffect.ALLOW, *allowed)
        if runs:
            reason = f"{program.name} runs programs that its words or files name"
            return SegmentDecision(simple.argv, real, self._miss, "runner", reason)
        reason = f"no pattern matches {program.name}"
        remembered = patterns.quoted(peeled.argv)
        return SegmentDecision(
            simple.argv, real, self._miss, "allowlist-miss", reason, remembered=remembered
        )

    def _repository(self, peeled: Peeled) -> str:
        """Returns the reason why git may run a program without its name in the words, or ""."""
        cwd = self._rules.cwd
        return "" if cwd is None else git_config.problem(cwd, self._rules.root, peeled.argv)

    def _unusable(self, peeled: Peeled, program: Resolved | None) -> tuple[str, ...]:
        """Returns rule and reason when no pattern can cover the command, otherwise empty."""
        searched = peeled.argv[:1] if peeled.is_complete else peeled.argv
        for word in searched:
            if _base(word) in PRIVILEGED:
                return "privileged", f"{_short(word)} runs a command as another user"
        for wrapper in peeled.wrappers:
            if wrapper not in _BUILTINS and not resolve(wrapper, self._rules.search_path):
                program, searched = None, (wrapper,)
        if program is None:
            return "program", f"the search path has no trusted program {_short(searched[0])}"
        return ()

    def _allowed(
        self, simple: Simple, peeled: Peeled, program: Resolved, *, runs: bool
    ) -> tuple[str, str, str | None] | None:
        """Returns rule, reason and pattern that allow the command; None without such a rule."""
        rules = self._rules
        is_filter = program.name in rules.safe_bins and is_on_path(program, rules.search_path)
        if is_filter and not runs and not safe_bins.problem(peeled.argv):
            return "safe-bin", f"{program.name} reads only its standard input", None
        for argv in dict.fromkeys((peeled.argv, simple.argv)):
            needs_exact = runs or is_wrapper(argv[0])
            resolved = resolve(argv[0], rules.search_path)
            for pattern in _parsed(rules.allowlist):
                if resolved is None or (needs_exact and not pattern.is_exact):
                    continue
                if patterns.matches(pattern, argv, resolved, rules.search_path):
                    return _ALLOWED, f"the command matches {pattern.text}", pattern.text
        return None


_MAX_WORD: Final = 80
"""Maximum length of a word in a reason."""
_BUILTINS: Final = frozenset({"time", "command"})


def _short(word: str) -> str:
    return word if len(word) <= _MAX_WORD else f"{word[:_MAX_WORD]}…"


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _parsed(texts: Sequence[str]) -> list[Pattern]:
    parsed: list[Pattern] = []
    for text in texts:
        try:
            parsed.append(parse(text))
        except PatternError:
            continue
    return parsed
