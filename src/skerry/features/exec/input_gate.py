"""Decides on input for a running command: input of a shell is a command too."""

import hashlib
from collections.abc import Iterable

from skerry.features.exec.command_check import ExecRules
from skerry.features.exec.process_session import ProcessSession
from skerry.model.origin import Origin
from skerry.policy.effect import ToolEffect
from skerry.policy.taint import foreign, guarded_act, reason
from skerry.ports.tool import ApprovalSubject, Assessment

_NOT_ANALYSED = "input for a command on this machine cannot be analysed"
_STARTED_BEFORE = "the command began before this conversation read text that is not its owner's"


def input_gate(
    session: ProcessSession, rules: ExecRules, data: bytes, taint: Iterable[Origin]
) -> Assessment:
    """Returns the decision on input for a command.

    Args:
        session: The command.
        rules: The rules of its host for the agent.
        data: Input in bytes.
        taint: Origins of the text that the run has read.

    """
    host = session.command.host
    text = f"input for {session.command.text}: {data.decode('utf-8', 'replace')!r}"
    bound = hashlib.sha256(f"{session.id}\0{session.key}\0{session.pid}\0".encode() + data)
    subject = ApprovalSubject(text, None, host, session.command.cwd, (), bound.digest())
    origins = foreign(taint)
    if rules.security == "deny":
        return Assessment(ToolEffect.DENY, "security-deny", "the security of commands is deny")
    if host != "sandbox" and rules.security != "full":
        effect = ToolEffect.DENY if rules.ask == "off" else ToolEffect.ASK
        return Assessment(effect, "process-input", _NOT_ANALYSED, subject)
    if rules.ask == "always":
        return Assessment(ToolEffect.ASK, "ask-always", "the ask mode is always", subject)
    if origins and (rule := guarded_act("process", host=host)):
        return Assessment(ToolEffect.ASK, rule, reason(rule, origins), subject)
    if origins and not session.command.is_tainted:
        return Assessment(ToolEffect.ASK, "tainted-input", _STARTED_BEFORE, subject)
    return Assessment(ToolEffect.ALLOW, "process", "", subject)
