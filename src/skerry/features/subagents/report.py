"""Announcement of the end of a sub-agent: status, report and figures (pure)."""

from typing import Final

from msgspec import Struct

from skerry.features.subagents.tables import Subagent, SubagentOutcome
from skerry.model.ids import RunId
from skerry.model.origin import Origin
from skerry.model.run import Purpose, RunRequest, RunResult, StopReason
from skerry.policy import fences
from skerry.policy.injection import Scan

MAX_CHARS: Final = 20_000
"""Maximum length of a report in the announcement, in characters; the session has all of it."""
_OUTCOMES: Final = {
    StopReason.DONE: SubagentOutcome.SUCCESS,
    StopReason.TIMEOUT: SubagentOutcome.TIMEOUT,
    StopReason.ERROR: SubagentOutcome.ERROR,
    StopReason.ABORTED: SubagentOutcome.STOPPED,
    StopReason.INTERRUPTED: SubagentOutcome.UNKNOWN,
}
_WORDS: Final = {
    SubagentOutcome.SUCCESS: "success",
    SubagentOutcome.ERROR: "error",
    SubagentOutcome.TIMEOUT: "timeout: its time limit ended it",
    SubagentOutcome.STOPPED: "stopped before it was done",
    SubagentOutcome.UNKNOWN: "unknown: the gateway ended during its run, and it is not repeated",
}
_NEXT: Final = (
    "Continue with it: say in your own words what matters of it to the person who asked. If nobody"
    " has to read anything, your whole reply is NO_REPLY."
)


class Report(Struct, frozen=True):
    """End of a sub-agent, for the announcement to its parent."""

    subagent: Subagent
    status: SubagentOutcome
    text: str
    """Its last text; may be empty."""
    result: RunResult | None
    """Result of its run; None when the result was lost."""
    path: str
    """Path of its transcript; empty without one."""
    scanned: Scan | None
    """Findings of the injection detector in the text."""
    origin: Origin | None
    """Origin of the least trusted text that it has read; None when all was the owner's."""


def status_of(result: RunResult | None) -> SubagentOutcome:
    """Returns the outcome of a run; None has an unknown outcome."""
    return _OUTCOMES[result.stop_reason] if result is not None else SubagentOutcome.UNKNOWN


def announcement(report: Report) -> RunRequest:
    """Returns the message to the parent, with the rights and the reply route of the spawning run.

    Its id is made of the run's id, so that it is accepted once. Foreign text that the sub-agent has
    read taints the parent too.
    """
    parent = report.subagent.request
    return RunRequest(
        RunId(f"announce-{report.subagent.run_id}"),
        parent.key,
        text(report),
        reply_to=parent.reply_to,
        origin=parent.origin,
        purpose=Purpose.ANNOUNCE,
        rights=parent.rights,
        scopes=parent.scopes,
        sender=parent.sender,
        behalf=parent.behalf,
        text_origin=report.origin,
        parent=parent.parent,
    )


def text(report: Report) -> str:
    """Returns the text of the announcement."""
    subagent, result = report.subagent, report.result
    name = f" {subagent.label!r}" if subagent.label else ""
    lines = [f"A sub-agent{name} that you started has ended. Status: {_WORDS[report.status]}."]
    if result is not None and result.error is not None:
        lines.append(f"Error: {result.error.message}")
    answer = report.text
    if len(answer) > MAX_CHARS:
        answer = answer[:MAX_CHARS] + "\n[cut; its session has the rest]"
    if answer:
        about = fences.about(report.scanned)
        identity = fences.derived_id(subagent.run_id, answer)
        lines.append(fences.fence(answer, "report", identity=identity, about=about))
    else:
        lines.append("It wrote no report.")
    lines.append(stats(report))
    lines.append(_NEXT)
    return "\n".join(lines)


def stats(report: Report) -> str:
    """Returns run time, tokens and cost, and the location of the session."""
    subagent, result = report.subagent, report.result
    parts = []
    if result is not None:
        usage = result.usage
        seconds = max(0, result.ended_at - result.started_at) / 1000
        read = usage.input + usage.cache_read + usage.cache_write
        parts = [
            f"run time {seconds:.1f} s",
            f"tokens in {read}, out {usage.output}, total {read + usage.output}",
            f"estimated cost ${usage.cost.total:.4f}",
        ]
    parts.append(f"session {subagent.session_key}")
    if report.path:
        parts.append(f"transcript {report.path}")
    return f"Stats: {'; '.join(parts)}."
