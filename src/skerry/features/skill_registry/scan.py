"""Scans the files of a skill for the marks of known attacks, before a person is asked (pure).

A skill is text that a model obeys, so no scan proves that it is harmless. The rules find what
campaigns against users of such registries did: commands piped from the network into a shell,
encoded commands, keys sent away, archives with a password, text that only a model sees. A severe
finding stops an installation that does not accept it explicitly. Sources: security notes E and
case 87; the public report on 341 hostile skills (CVE-2026-25253).
"""

import binascii
import re
import unicodedata
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Final

from msgspec import Struct

from skerry.policy.folding import fold, visible
from skerry.policy.injection import marked

MAX_FINDINGS: Final = 50
"""Limit of the findings of one skill; the first of each rule and file is reported."""
_EXCERPT: Final = 100
_NEAR_LINES: Final = 3
"""Lines before and after a line that count as near it."""
_MAX_LINE: Final = 4000
_MIN_BASE64: Final = 32


class Severity(StrEnum):
    """Weight of a finding."""

    SEVERE = "severe"
    """Stops an installation."""
    WARNING = "warning"


class Finding(Struct, frozen=True):
    """A mark of an attack in a file."""

    severity: Severity
    rule: str
    """Name of the rule, such as `pipe-to-shell`."""
    path: str
    line: int
    """Number of the line, from 1; 0 for a whole file."""
    reason: str
    """Explanation for people."""
    excerpt: str = ""


class _Rule(Struct, frozen=True):
    severity: Severity
    name: str
    reason: str
    pattern: re.Pattern[str]
    near: re.Pattern[str] | None = None
    """Pattern that must match in the lines near the line."""


_pattern: Final = partial(re.compile, flags=re.IGNORECASE)


_SHELL: Final = (
    r"(?:(?:ba|z|da|k|fi|tc)?sh\b|osascript\b|pwsh\b"
    # With a program of its own (`python3 -c ...`) an interpreter only reads what was fetched.
    r"|(?:python[0-9.]{0,6}|perl|ruby|node|php)\b(?!\s{1,3}-{1,2}\w{0,4}[cemnpr]))"
)
_FETCH: Final = r"\b(?:curl|wget|fetch|aria2c|http|https|iwr|invoke-webrequest)\b"
_SENDS: Final = _pattern(
    r"\b(?:curl|wget|nc|ncat|netcat|scp|rsync|ftp|sftp)\b|\brequests\.(?:post|put|get)\b|\bfetch\("
    r"|\burlopen\b|\bhttpx?\.post\b|\baxios\b|webhook|\b(?:upload|exfil\w*|transmit)\b"
    r"|\b(?:send|post|forward|submit)\b.{0,60}(?:https?://|\bto\b)"
)
_COLLECTORS: Final = (
    r"webhook\.site|requestbin|pipedream\.net|ngrok(?:-free)?\.(?:io|app|dev)|glot\.io|pastebin\.com"
    r"|transfer\.sh|discord(?:app)?\.com/api/webhooks|api\.telegram\.org/bot|burpcollaborator"
    r"|oast\.(?:fun|pro|live|me)|interact\.sh|trycloudflare\.com"
)
_SECRETS: Final = (
    r"\.ssh\b|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|\.aws/credentials|\.netrc\b|\.git-credentials"
    r"|\.npmrc\b|\.pypirc\b|\.kube/config|\.docker/config\.json|\.gnupg\b|find-generic-password"
    r"|login data\b|cookies\.sqlite|wallet\.dat|\bseed phrase|\bkeychain\b|\.config/gh/hosts"
    r"|\.(?:skerry|openclaw|clawdbot)/(?:\S{0,60}credential|wallets|vault)"
    r"|auth-profiles\.json|/etc/shadow"
)
_DUMPS_ENV: Final = (
    r"\b(?:printenv|env)\s{0,3}(?:\||>)|\$\((?:printenv|env)\b|\bjson\.stringify\(process\.env\b"
    r"|\bdict\(os\.environ\)|\bjson\.dumps\([^)\n]{0,20}os\.environ|\ball environment variables\b"
)
S, W = Severity.SEVERE, Severity.WARNING
_RULES: Final = (
    _Rule(
        S,
        "pipe-to-shell",
        "runs a program from the network without showing it",
        _pattern(
            rf"{_FETCH}[^\n|]{{0,400}}\|\s{{0,3}}(?:sudo\s{{1,3}})?(?:-?\w{{1,12}}\s{{1,3}}){{0,2}}?{_SHELL}"
            rf"|{_SHELL}\s{{0,3}}(?:-\w{{1,4}}\s{{0,3}})?[\"']?(?:<\(|\$\(|`)\s{{0,3}}{_FETCH}"
            rf"|\b(?:eval|source|iex)\b\s{{0,3}}[\"'(<$`]{{1,4}}\s{{0,3}}{_FETCH}"
            r"|\biwr\b[^\n|]{0,400}\|\s{0,3}iex\b"
        ),
    ),
    _Rule(
        S,
        "decode-to-shell",
        "runs a command that is encoded",
        _pattern(
            rf"\bbase64\b[^\n]{{0,200}}\|\s{{0,3}}(?:sudo\s{{1,3}})?{_SHELL}"
            rf"|\b(?:xxd|openssl)\b[^\n]{{0,200}}\|\s{{0,3}}{_SHELL}"
            r"|\b(?:exec|eval|compile)\s{0,3}\([^\n]{0,80}(?:b64decode|atob|fromcharcode|unhexlify)"
            r"|\b(?:powershell|pwsh)\b[^\n]{0,80}\s-e(?:nc|ncodedcommand)?\s"
        ),
    ),
    _Rule(
        S,
        "reverse-shell",
        "opens a shell to another machine",
        _pattern(
            r"/dev/(?:tcp|udp)/|\b(?:nc|ncat|netcat)\b[^\n]{0,80}\s-\w{0,3}[ec]\s"
            r"|\bmkfifo\b[^\n]{0,200}\bnc\b|\bpty\.spawn\("
        ),
    ),
    _Rule(
        S,
        "send-secrets",
        "reads keys or passwords near a command that sends",
        _pattern(_SECRETS),
        near=_SENDS,
    ),
    _Rule(
        S,
        "send-environment",
        "reads all variables, among them keys, near a command that sends",
        _pattern(_DUMPS_ENV),
        near=_SENDS,
    ),
    _Rule(
        S,
        "password-archive",
        "requests an archive with a password, which no scanner can read",
        _pattern(
            r"(?:\.zip|\.rar|\.7z|\.dmg|\barchive|\binstaller|\bunzip|\bextract)"
            r"[^\n]{0,120}\bpass(?:word|phrase|code|wort)?\b\s{0,3}(?:is\b|[:=`\"'(])"
            r"|\bunzip\b[^\n]{0,40}\s-P\s{0,2}\S|\b7z\w?\s[^\n]{0,40}\s-p\S"
        ),
    ),
    _Rule(
        S,
        "disable-protection",
        "switches off a protection of the system or of the gateway",
        _pattern(
            r"\bxattr\b[^\n]{0,40}(?:com\.apple\.quarantine|\s-r?cr?\b)|\bspctl\b[^\n]{0,20}-disable"
            r"|\bset-mppreference\b|\bsetenforce\s{1,3}0\b|\bcsrutil\s{1,3}disable"
            r"|\b(?:config\s{1,3}set)\b[^\n]{0,80}(?:approv|sandbox|exec|ssrf|security)"
        ),
    ),
    _Rule(
        S,
        "opens-access",
        "adds a key or an account that can log in",
        _pattern(r"authorized_keys|\buseradd\b|/etc/sudoers|\bnopasswd\b"),
    ),
    _Rule(
        S,
        "destroys-files",
        "removes or overwrites a whole disk or home folder",
        _pattern(
            r"\brm\s{1,3}-\w{0,4}r\w{0,4}\s{1,3}(?:--no-preserve-root\s{1,3})?[\"']?(?:/|~|\$home)/?[\"']?"
            r"(?:\*|\s|$)|\bmkfs\b|\bdd\s[^\n]{0,80}of=/dev/|:\(\)\s{0,2}\{\s{0,2}:\|:"
        ),
    ),
    _Rule(
        S,
        "conceals",
        "tells the agent to act without the person",
        _pattern(
            r"\b(?:do not|don't|never|without)\s{1,3}(?:(?:tell|inform|notify|alert|warn)(?:ing)?"
            r"\s{1,3}|(?:mention|show|reveal|report|disclose)(?:ing)?\b[^\n.]{0,40}\bto\s{1,3})"
            r"(?:the\s{1,3}|your\s{1,3})?(?:user|human|owner|person)\b"
        ),
    ),
    _Rule(W, "collector", "names a service that collects data", _pattern(_COLLECTORS)),
    _Rule(W, "reads-secrets", "names files with keys or passwords", _pattern(_SECRETS)),
    _Rule(W, "dumps-environment", "reads all variables, among them keys", _pattern(_DUMPS_ENV)),
    _Rule(
        W,
        "no-permissions",
        "starts a program without its questions",
        _pattern(r"--dangerously|\bauto-?approve\b|--yolo\b|--full-auto\b"),
    ),
    _Rule(W, "root", "runs a command as root", _pattern(r"(?:^|[\s`;&|])sudo\s")),
    _Rule(
        W,
        "starts-itself",
        "changes a file that runs at each login or by a schedule",
        _pattern(
            r"\bcrontab\b|launchagents|\.(?:bash|zsh)rc\b|\.(?:bash_)?profile\b|systemctl\s[^\n]{0,30}enable"
        ),
    ),
    _Rule(
        W,
        "changes-agent",
        "names the files that define the agent",
        _pattern(r"\b(?:SOUL|AGENTS|IDENTITY|HEARTBEAT|MEMORY)\.md\b"),
    ),
    _Rule(
        W,
        "program-download",
        "names a program to download and start",
        _pattern(
            r"https?://\S{1,300}\.(?:exe|msi|scr|dmg|pkg|appimage|bat|ps1)\b|\bchmod\s{1,3}\+x\b"
        ),
    ),
)
_BASE64: Final = re.compile(rf"[A-Za-z0-9+/]{{{_MIN_BASE64},}}={{0,2}}")
_COMMAND: Final = _pattern(rf"{_FETCH}|/bin/|\b(?:ba)?sh\s{{1,3}}-c\b|https?://|\beval\b|\bexec\b")
_BIDI: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
_ZERO_WIDTH: Final = re.compile("[\u00ad\u200b\u2060-\u2064]|(?<=.)\ufeff")
_ORDERS: Final = frozenset(
    {"override-order", "obey-order", "prompt-request", "role-order", "fence-mark"}
)
"""Patterns of `policy.injection` that no honest skill needs; its others match any instruction."""


def findings_of(files: Mapping[str, bytes]) -> list[Finding]:
    """Returns the findings in the files of a skill by path; severe findings first."""
    findings: dict[tuple[str, str], Finding] = {}
    for path, data in files.items():
        for finding in _of_file(path, data):
            findings.setdefault((finding.path, finding.rule), finding)
    rows = list(findings.values())
    severe = {(row.path, row.line) for row in rows if row.severity is S}
    kept = [row for row in rows if row.severity is S or (row.path, row.line) not in severe]
    return sorted(kept, key=lambda row: row.severity is not S)[:MAX_FINDINGS]


def are_severe(findings: Iterable[Finding]) -> bool:
    """Returns whether a finding stops an installation."""
    return any(finding.severity is S for finding in findings)


def text_of(data: bytes) -> str | None:
    """Returns the text of a file; None for a binary file."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    controls = {character for character in set(text) if unicodedata.category(character) == "Cc"}
    return text if controls <= set("\n\r\t\f") else None


def _of_file(path: str, data: bytes) -> Iterator[Finding]:
    text = text_of(data)
    if text is None:
        yield Finding(S, "binary", path, 0, "is not text, so it cannot be read before it is used")
        return
    yield from _hidden(path, text)
    lines = _lines(text)
    for number, line in enumerate(lines, 1):
        for rule in _RULES:
            match = rule.pattern.search(line)
            if match is not None and (rule.near is None or _is_near(rule.near, lines, number)):
                yield _finding(rule.severity, rule.name, path, number, rule.reason, line)
        yield from _encoded(path, number, line)
    yield from _orders(path, text)


def _lines(text: str) -> list[str]:
    """Returns the lines as a reader sees them; continued lines are joined to their first line."""
    lines: list[str] = []
    continued = ""
    for raw in text.split("\n"):
        line = unicodedata.normalize("NFKC", visible(raw[:_MAX_LINE]))
        if raw.endswith("\\") and len(continued) < _MAX_LINE:
            continued += line.removesuffix("\\") + " "
            lines.append("")
        else:
            lines.append(continued + line)
            continued = ""
    return lines


def _is_near(pattern: re.Pattern[str], lines: list[str], number: int) -> bool:
    return any(map(pattern.search, lines[max(0, number - 1 - _NEAR_LINES) : number + _NEAR_LINES]))


def _hidden(path: str, text: str) -> Iterator[Finding]:
    hints = fold(text).hints if not text.isascii() else frozenset()
    if match := _BIDI.search(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Finding(S, "reordered-text", path, line, "has characters that reverse the text shown")
    if "tags" in hints or "split" in hints:
        yield Finding(S, "hidden-text", path, 0, "has text in characters that nobody sees")
    elif match := _ZERO_WIDTH.search(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Finding(W, "hidden-characters", path, line, "has characters that nobody sees")


def _encoded(path: str, number: int, line: str) -> Iterator[Finding]:
    """Yields a finding for a command in base64."""
    for match in _BASE64.finditer(line):
        run = match[0].rstrip("=")
        try:
            plain = b64decode(run[: len(run) - (len(run) % 4 == 1)] + "=" * (-len(run) % 4))
            decoded = plain.decode()
        except (binascii.Error, ValueError):
            continue
        if _COMMAND.search(decoded):
            reason = f"has an encoded command: {_shortened(decoded)}"
            yield _finding(S, "encoded-command", path, number, reason, line)


def _orders(path: str, text: str) -> Iterator[Finding]:
    for start in range(0, len(text), _MAX_LINE):
        window = text[max(0, start - _EXCERPT) : start + _MAX_LINE]
        names = [name for name in marked(fold(window)) if name in _ORDERS]
        if names:
            line = text.count("\n", 0, start) + 1
            reason = f"tries to change the rules of the agent ({', '.join(names)})"
            yield Finding(S, "prompt-injection", path, line, reason)
            return


def _finding(
    severity: Severity, rule: str, path: str, line: int, reason: str, text: str
) -> Finding:
    return Finding(severity, rule, path, line, reason, _shortened(text))


def _shortened(text: str) -> str:
    flat = " ".join(visible(text).split())
    return flat if len(flat) <= _EXCERPT else f"{flat[: _EXCERPT - 1]}…"
