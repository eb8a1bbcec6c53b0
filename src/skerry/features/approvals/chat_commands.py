"""`/approve`: answers an approval in the chat whose conversation made the call."""

from typing import Final

from skerry.app.command_dependencies import CommandDependencies
from skerry.commands.table import Argument, Command, CommandCall, CommandError
from skerry.model.approval import Verdict
from skerry.model.errors import RequestError
from skerry.store.approvals import StoredApproval

WORDS: Final = {
    "allow": Verdict.ONCE,
    "always": Verdict.ALWAYS,
    "once": Verdict.ONCE,
    "yes": Verdict.ONCE,
    "no": Verdict.DENY,
    **{verdict.value: verdict for verdict in Verdict},
}
_MIN_PREFIX: Final = 4
"""Minimum length of the beginning of an id."""


def commands(desk: CommandDependencies) -> tuple[Command, ...]:
    """Returns `/approve`."""

    async def approve(call: CommandCall) -> str:
        approvals = desk.dispatcher.runtime.approvals
        if approvals is None:
            raise CommandError("No call waits for approval here.")
        name, _, word = call.arguments.strip().partition(" ")
        verdict = WORDS.get(word.strip().lower() or Verdict.ONCE)
        if not name or verdict is None:
            raise CommandError("Usage: /approve ID allow-once|allow-always|deny")
        waiting = [row for row in await approvals.pending() if _is_here(row, call)]
        matches = [row for row in waiting if _named(row, name)]
        if len(matches) != 1:
            ids = ", ".join(row.id[:8] for row in waiting) or "none"
            raise CommandError(f"No pending approval {name!r} here. Pending here: {ids}.")
        try:
            await approvals.resolve(matches[0].id, verdict, f"/approve on {call.channel}")
        except RequestError as error:
            raise CommandError(f"{error} {error.remedy}") from error
        outcome = {Verdict.ONCE: "Allowed once", Verdict.ALWAYS: "Allowed always"}.get(verdict)
        return f"{outcome or 'Denied'}: {matches[0].id[:8]}."

    return (
        Command(
            "approve",
            "allows or denies a call that waits in this conversation",
            approve,
            accepts_arguments=True,
            at_once=True,
            breaks_silence=True,
            arguments=(
                Argument("id", "id of the request"),
                Argument("decision", choices=tuple(Verdict)),
            ),
            category="tools",
        ),
    )


def _is_here(approval: StoredApproval, call: CommandCall) -> bool:
    return approval.subject.session_key == str(call.key)


def _named(approval: StoredApproval, name: str) -> bool:
    return len(name) >= _MIN_PREFIX and approval.id.startswith(name)
