"""Abuse cases of commands that run unasked; many more are rows of the corpus."""

import pytest

from skerry.features.exec import safe_bins
from skerry.features.exec.command_check import ExecRules, check

INTERPRETERS = (
    *("bash", "sh", "python3", "perl", "awk", "find", "xargs", "make", "env", "sed", "tar", "vim"),
    *("python3.11", "ssh", "nice", "timeout", "less", "script"),
)


@pytest.mark.abuse(60)
@pytest.mark.parametrize("name", INTERPRETERS)
async def test_always_is_never_offered_for_what_runs_other_commands(name: str) -> None:
    for command in (f"{name} -c x", f"{name} x", f"timeout 5 {name} x", f"git status && {name} x"):
        assert (await check(command, ExecRules())).patterns == ()


@pytest.mark.abuse(61)
@pytest.mark.parametrize(
    "wrapped",
    [
        *("env rm x", "nice -n 5 rm x", "nohup rm x", "stdbuf -oL rm x", "timeout 5 rm x"),
        *("time rm x", "script -c 'rm x'", "busybox rm x", "setsid rm x", "command rm x"),
        *("env -S 'rm x'", "xargs rm x", "sudo rm x", "env -i rm x", "nice " * 30 + "ls"),
    ],
)
async def test_a_wrapper_does_not_hide_what_it_runs(wrapped: str) -> None:
    names = ("env", "nice", "nohup", "stdbuf", "timeout", "time", "script", "busybox", "setsid")
    patterns = tuple(f"{name} *" for name in (*names, "command", "xargs", "sudo"))
    assert (await check(wrapped, ExecRules(allowlist=("ls", *patterns)))).decision == "ask"


@pytest.mark.abuse(72)
@pytest.mark.parametrize("name", INTERPRETERS)
async def test_a_pattern_with_a_star_does_not_cover_an_interpreter(name: str) -> None:
    allowlist = (f"{name} *", f"{name} x *", f"/usr/bin/{name}", "/usr/bin/*", "/bin/*", "/usr/**")
    for command in (f"{name} x y", f"{name} x", name):
        assert (await check(command, ExecRules(allowlist=allowlist))).decision == "ask"


@pytest.mark.abuse(69)
@pytest.mark.parametrize(
    "character",
    ["\u200b", "\u202e", "\u3164", "\u2066", "\x1b", "\u00a0", "\u2800", "\ufe0f", "\U000e0041"],
)
async def test_a_character_that_nobody_sees_is_asked_about(character: str) -> None:
    rules = ExecRules(allowlist=("git diff *",))
    assert (await check("git diff a", rules)).decision == "allow"
    decision = await check(f"git diff a{character}", rules)
    assert (decision.decision, decision.rule) == ("ask", "character")
    assert f"U+{ord(character):04X}" in decision.reason


@pytest.mark.abuse(70)
@pytest.mark.parametrize(
    "command", ["LD_PRELOAD=x git status", "env PATH=x git status", "export A=b; git status"]
)
async def test_a_command_that_sets_a_variable_is_asked_about(command: str) -> None:
    assert (await check(command, ExecRules(allowlist=("git status",)))).decision == "ask"


@pytest.mark.requirement("tools-safe-bins")
@pytest.mark.abuse(64)
@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("grep -i a | jq .a | cat -n", "allow"),
        ("grep a file", "ask"),
        ("grep -f file", "ask"),
        ("grep -r a", "ask"),
        ("jq env", "ask"),
        ("jq '$ENV.A'", "ask"),
        ("jq . file", "ask"),
        ("cat file", "ask"),
        ("sort -o file", "ask"),
        ("sort --compress-prog=sh", "ask"),
        ("sort --compress-program=sh", "ask"),
        ("wc --files0-from=file", "ask"),
        ("uniq in out", "ask"),
        ("awk 1", "ask"),
        ("python3 -", "ask"),
    ],
)
async def test_a_safe_bin_runs_unasked_only_as_a_filter(command: str, decision: str) -> None:
    bins = (*safe_bins.DEFAULT, "sort", "awk", "python3")
    assert (await check(command, ExecRules(safe_bins=bins))).decision == decision


@pytest.mark.parametrize("name", safe_bins.FILTERS)
def test_no_safe_bin_takes_a_shortened_option_or_a_file(name: str) -> None:
    profile = safe_bins.FILTERS[name]
    for option in profile.long_flags | profile.long_valued | profile.optional:
        assert safe_bins.problem((name, option[:-1])) or option[:-1] in profile.long_flags
    assert safe_bins.problem((name, *["x"] * (profile.operands + 1)))
    assert safe_bins.problem((name, "--no-such-option"))
