"""Decisions on commands of a host."""

import pytest

from skerry.features.exec.command_check import ExecRules, check

SEEDS = ("npm test", "git status", "git diff *", "ls -la *", "cat *.md")
"""The allowlist of the third seed."""


@pytest.mark.requirement("exec-allowlist-match-runs")
@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git diff HEAD~1 src/a.py && ls -la",
        "(cat README.md | grep -i 'a b') 2>&1 >/dev/null",
        "timeout 5 git status; time ls -la /etc",
        "/usr/bin/git status # a comment",
        "ls -la | cat - | grep -i a - | head -n 2 -",
    ],
)
async def test_what_patterns_and_safe_bins_cover_is_allowed(command: str) -> None:
    decision = await check(command, ExecRules(allowlist=SEEDS))
    assert (decision.decision, decision.patterns) == ("allow", ())


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("git status & rm x", "background"),
        ("git status `id`", "substitution"),
        ('git status "$(id)"', "substitution"),
        ("git status $HOME", "expansion"),
        ("git diff a*", "glob"),
        ("git diff {a,b}", "brace"),
        ("git diff ~/x", "tilde"),
        ("A=1 git status", "assignment"),
        ("git status > x", "redirection"),
        ("git status 20>/dev/null", "redirection"),
        ("git\u200b status", "character"),
        ("git status \\\n", "character"),
        ("if true; then git status; fi", "not-simple"),
        ("git status '", "syntax"),
        ("git diff --ext-diff", "allowlist-miss"),
        ("cat ../README.md", "allowlist-miss"),
        ("cat .x.md", "allowlist-miss"),
        ("cat - x", "allowlist-miss"),
        ("cat - -", "allowlist-miss"),
        ("jq . -", "allowlist-miss"),
        ("uniq - x", "allowlist-miss"),
        ("sudo git status", "privileged"),
        ("./git status", "program"),
        ("env A=1 git status", "runner"),
        ("npm test -- x", "runner"),
        ("git status\n" * 6000, "size"),
        ("git diff " + "a " * 6000, "size"),
        ("<<" * 30_000, "syntax"),
    ],
)
async def test_what_nothing_covers_is_asked_about_and_names_its_rule(
    command: str, rule: str
) -> None:
    decision = await check(command, ExecRules(allowlist=SEEDS))
    assert (decision.decision, decision.rule) == ("ask", rule)


@pytest.mark.requirement("tools-security-tiers")
@pytest.mark.requirement("exec-ask-flow")
@pytest.mark.parametrize(
    ("rules", "command", "decision", "rule"),
    [
        (ExecRules(security="deny", allowlist=SEEDS), "git status", "deny", "security-deny"),
        (ExecRules(security="full"), "rm -rf x", "allow", "security-full"),
        (ExecRules(security="full", ask="always"), "rm -rf x", "ask", "ask-always"),
        (ExecRules(ask="off"), "rm -rf x", "deny", "allowlist-miss"),
        (ExecRules(ask="off"), "grep x", "allow", "safe-bin"),
        (ExecRules(ask="always"), "grep x", "ask", "ask-always"),
        (ExecRules(), "rm -rf x", "ask", "allowlist-miss"),
    ],
)
async def test_security_comes_before_patterns_and_those_before_asking(
    rules: ExecRules, command: str, decision: str, rule: str
) -> None:
    answer = await check(command, rules)
    assert (answer.decision, answer.rule) == (decision, rule)


async def test_always_is_offered_for_plain_programs_alone() -> None:
    decision = await check("git status && timeout 5 git push 'a b' x", ExecRules())
    assert decision.patterns == ("git status", "git push 'a b' x")
    allowed = ExecRules(allowlist=decision.patterns)
    assert (await check("git status && git push 'a b' x", allowed)).decision == "allow"
    for command in ("git status && bash x", "git status | sudo ls", "git status $x"):
        assert (await check(command, ExecRules())).patterns == ()
