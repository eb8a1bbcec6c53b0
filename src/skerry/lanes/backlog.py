"""Queue behind a run of a conversation: the messages that share a turn, and the excess. Pure.

Rules and wording: openclaw-behaviour 5.2 and 5.3. One thing differs on purpose: a message that
waited alone stays as it was written.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from skerry.model.message import TextBlock, UserMessage
from skerry.model.queue import DropPolicy, QueueMode, QueueRules

if TYPE_CHECKING:
    from skerry.lanes.running import ActiveRun
    from skerry.model.run import RunRequest

TITLE: Final = "[Queued messages while agent was busy]"
OVERFLOW: Final = "[Queue overflow]"
_NEXT: Final = re.compile(r"(?:\A|\n\n)---\nQueued #\d+(?:\n(?!\n---\nQueued #)|(?=\n)|\Z)")
LINE_LENGTH: Final = 160
MAX_CHARS: Final = 4 * 1024 * 1024
"""Limit on one collected prompt, the base64 of its images included; the rest follows in another."""
_QUEUED: Final = frozenset(
    {QueueMode.COLLECT, QueueMode.STEER, QueueMode.FOLLOWUP, QueueMode.STEER_BACKLOG}
)
_DEBOUNCED: Final = _QUEUED - {QueueMode.STEER}


class Batch(Struct, frozen=True):
    """Runs that are one turn. The last answers for all of them."""

    runs: tuple["ActiveRun", ...]
    dropped: int = 0
    """Number of runs, from the first, of which the prompt has only a line."""

    def said(self, at: int) -> UserMessage:
        """Returns the one prompt that they make, as a message of time `at`."""
        requests = [run.request for run in self.runs]
        if len(requests) == 1 and not self.dropped:
            return requests[0].said(at)
        kept = requests[self.dropped :]
        parts = [TITLE] if kept else []
        if self.dropped:
            unseen = sum(run.unseen for run in self.runs)
            parts.append(summary([one.text for one in requests[: self.dropped]], unseen))
        parts += [f"---\nQueued #{n}\n{one.text}".strip() for n, one in enumerate(kept, 1)]
        images = tuple(image for one in kept for image in one.images)
        return UserMessage((TextBlock("\n\n".join(parts)), *images), at, requests[-1].origin)


def summary(texts: Sequence[str], unseen: int = 0) -> str:
    """Returns the note for the model about dropped messages; `unseen` ones are only counted."""
    number = len(texts) + unseen
    lines = [f"{OVERFLOW} Dropped {number} message{'s' * (number != 1)} due to cap."]
    if texts:
        lines += ["Summary:", *(f"- {_line(text)}" for text in texts)]
    return "\n".join(lines)


def parts(prompt: str) -> list[str]:
    """Returns the messages that a prompt was made of, a line of each that was dropped.

    Empty for what is one person's one message. The inverse of `Batch.said`.
    """
    if not prompt.startswith((TITLE, OVERFLOW)):
        return []
    head, *kept = _NEXT.split(prompt.removeprefix(TITLE))
    lines = [line[2:] for line in head.splitlines() if line.startswith("- ")]
    return [*lines, *kept]


def _line(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= LINE_LENGTH else plain[: LINE_LENGTH - 1].rstrip() + "…"


def may_share(one: "RunRequest", other: "RunRequest") -> bool:
    """Returns whether one run may answer both: it reaches both people, who may do the same.

    What a run may do follows from who asks. A stranger's words in a run of the owner's would have
    its tools and its memory; so they never enter one, in a group either.
    """
    if one.origin is not other.origin:
        return False
    if one.reply_to is None or other.reply_to is None:
        return one.reply_to is other.reply_to
    return (
        one.reply_to.channel == other.reply_to.channel
        and one.reply_to.account == other.reply_to.account
        and one.reply_to.peer == other.reply_to.peer
        and one.reply_to.thread_id == other.reply_to.thread_id
    )


def steers(run: "ActiveRun", host: "ActiveRun") -> bool:
    """Returns whether a message that waits may enter the run that is on.

    One of `steer-backlog` may have entered a run of an earlier process: it has its own turn only.
    """
    if not is_queued(run) or run.rules is None or not may_share(host.request, run.request):
        return False
    mode = run.rules.mode
    return mode is QueueMode.STEER or (mode is QueueMode.STEER_BACKLOG and not run.taken_up)


def is_queued(run: "ActiveRun") -> bool:
    """Returns whether the run is a message that waits behind another run, as its mode has it."""
    return (
        run.rules is not None
        and run.rules.mode in _QUEUED
        and run.entry == 0
        and run.admitted.is_set()
        and not run.withdrawn
        and run.aborted_by is None
    )


def line(front: "ActiveRun", behind: Sequence["ActiveRun"]) -> list["ActiveRun"]:
    """Returns the messages from the `front` on that belong to one queue: same people, same way."""
    if not is_queued(front):
        return [front]
    left = MAX_CHARS - weight(front.request)

    def belongs(run: "ActiveRun") -> bool:
        nonlocal left
        left -= weight(run.request)
        return (
            left >= 0
            and is_queued(run)
            and _collects(run) == _collects(front)
            and may_share(run.request, front.request)
        )

    return [front, *takewhile(belongs, behind)]


def batch(front: "ActiveRun", behind: Sequence["ActiveRun"]) -> Batch:
    """Returns the runs that share the turn of `front`, from those `behind` it, in order."""
    found = line(front, behind)
    rules = found[-1].rules
    if not is_queued(front) or rules is None:
        return Batch((front,))
    over = max(0, len(found) - rules.cap) if rules.drop is DropPolicy.SUMMARIZE else 0
    if _collects(front):
        return Batch(tuple(found), over)
    return Batch(tuple(found[:over]), over) if over else Batch((front,))


def excess(queued: Sequence["ActiveRun"], rules: QueueRules) -> list["ActiveRun"]:
    """Returns those of the waiting messages, in order, that are dropped.

    With `summarize` more may wait than the cap, and the turn makes lines of them; at most `cap`
    lines (openclaw-behaviour 5.3), so what is beyond twice the cap is dropped without one.
    """
    match rules.drop:
        case DropPolicy.NEW:
            return list(queued[rules.cap :])
        case DropPolicy.OLD:
            return list(queued[: max(0, len(queued) - rules.cap)])
        case DropPolicy.SUMMARIZE:
            return list(queued[: max(0, len(queued) - 2 * rules.cap)])


def quiet_seconds(run: "ActiveRun") -> float:
    """Returns how long nothing more must have come, before the run's turn begins."""
    if run.rules is None or run.rules.mode not in _DEBOUNCED or not is_queued(run):
        return 0.0
    return run.rules.debounce_ms / 1000


def weight(request: "RunRequest") -> int:
    """Returns the characters of a request, those of its images included."""
    return len(request.text) + sum(len(image.data) for image in request.images)


def _collects(run: "ActiveRun") -> bool:
    return run.rules is not None and run.rules.mode is QueueMode.COLLECT
