"""Runs that are accepted and not ended, and the queue rules for those that wait.

Rules and wording of the queue: openclaw-behaviour 5.2 and 5.3. One difference is intended: a
single waiting message is not reworded.
"""

import math
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Final

import anyio
from msgspec import Struct, field

from skerry.lanes.collected_prompt import collected_prompt
from skerry.lanes.lanes import Job
from skerry.model.event import RunEvent, RunEventBody
from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.message import Message, MessageContext, UserMessage
from skerry.model.queue import DropPolicy, QueueMode, QueueRules
from skerry.model.run import RunRequest, RunResult
from skerry.model.session import SessionEntry, SessionSettings

MAX_CHARS: Final = 4 * 1024 * 1024
"""Limit on one collected prompt, with the base64 of its images; the rest is in the next prompt."""
_QUEUED: Final = frozenset(
    {QueueMode.COLLECT, QueueMode.STEER, QueueMode.FOLLOWUP, QueueMode.STEER_BACKLOG}
)
_DEBOUNCED: Final = _QUEUED - {QueueMode.STEER}
_NO_SESSION: Final = SessionId("")


class Batch(Struct, frozen=True):
    """Runs that share one turn. The last of them answers for all."""

    runs: tuple["ActiveRun", ...]
    dropped: int = 0
    """Number of first runs that have only one line in the prompt."""

    def prompt(self, at: int) -> UserMessage:
        """Returns the common prompt of the runs, as a message with the time `at`."""
        requests = [run.request for run in self.runs]
        if len(requests) == 1 and not self.dropped:
            return requests[0].message(at)
        unseen = sum(run.unseen for run in self.runs)
        return collected_prompt(requests, self.dropped, unseen, at)


class ContinuedRun(Struct, frozen=True):
    """Messages and blocks that a run had produced before a restart."""

    messages: tuple[Message, ...]
    """Messages after its prompt, including those that have entered the run."""
    prompt_index: int | None
    """Index of its prompt in the conversation; None if it was summarised."""
    blocks: int = 0
    """Number of its blocks in the outbox."""
    sent: str | None = None
    """Text of the interrupted response that was sent; None if nothing of the run was sent."""
    preview: int = 0
    """Serial of the preview of the interrupted response; 0 without one."""


class ActiveRun(Struct, eq=False):
    """One run between acceptance and end, with its mailbox."""

    request: RunRequest
    session_id: SessionId = _NO_SESSION
    accepted_at: int = 0
    entry: int = 0
    """Number of its user entry in the transcript; 0 before that is written."""
    settings: SessionSettings | None = None
    """Settings of its session at its start; None until they are read."""
    rules: QueueRules | None = None
    """Queue rules for it; None until they are read, or if no run was before it."""
    arrived: float = -math.inf
    """Event loop time of its acceptance; minus infinity if an earlier process accepted it."""
    serial: int = 0
    """Sequence number of its acceptance in this process."""
    turn: Job | None = None
    """Its job in the lane, while it waits there."""
    started_at: int = 0
    """Start of its turn in milliseconds since 1970; 0 while it waits."""
    unseen: int = 0
    """Number of messages before it that were dropped without a line in the prompt."""
    batch: Batch | None = None
    """Runs whose messages are in its prompt; None if it has only its own message."""
    ended_before: SessionEntry | None = None
    """The session that expired when its message arrived."""
    admitted: anyio.Event = field(default_factory=anyio.Event)
    """Set when the run is stored or withdrawn."""
    is_continued: bool = False
    """True when it was interrupted and continues after its last durable step."""
    continued: ContinuedRun | None = None
    """Messages and blocks from before the interruption; None until they are read, and for a new
    run."""
    sent: str | None = None
    """Text of the answer that an earlier process sent, as in `ContinuedRun.sent`."""
    withdrawn: bool = False
    """True when its id was already in use, or it could not be stored: the run does not exist."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    result: RunResult | None = None
    nudge: anyio.Event | None = None
    """Event that a new message in the mailbox sets to end a wait for a person; None without a
    wait."""
    scope: anyio.CancelScope | None = None
    """Scope that `abort` cancels while the run works."""
    aborted_by: str | None = None
    steering: deque["ActiveRun"] = field(default_factory=deque)
    """Mailbox: runs whose message enters this run after the present tool call."""
    entered: bool = False
    """True when its message has entered an active run but it keeps its own turn."""
    joined: list["ActiveRun"] = field(default_factory=list)
    """Runs whose message has entered this run; they end with it."""
    host: "ActiveRun | None" = None
    """The run that its own message has entered."""
    working: bool = False
    """True while the loop runs, so that a message can still enter."""
    finished: bool = False
    """True when the loop has ended, so that aborting has no effect."""

    def prompt(self) -> UserMessage:
        """Returns the prompt of the run, as a message of the transcript."""
        batch = self.batch or Batch((self,))
        return batch.prompt(self.accepted_at)

    def event(self, body: RunEventBody) -> RunEvent:
        """Returns an event of the run."""
        key = self.request.key
        return RunEvent(self.request.run_id, str(key), self.session_id, key.agent, body)

    @property
    def is_queued(self) -> bool:
        """Returns whether the run waits in the queue behind another run."""
        return (
            self.rules is not None
            and self.rules.mode in _QUEUED
            and self.entry == 0
            and self.admitted.is_set()
            and not self.withdrawn
            and self.aborted_by is None
        )

    @property
    def quiet_seconds(self) -> float:
        """Returns the seconds without a new message after which the run's turn begins."""
        if self.rules is None or self.rules.mode not in _DEBOUNCED or not self.is_queued:
            return 0.0
        return self.rules.debounce_ms / 1000

    @property
    def is_collected(self) -> bool:
        """Returns whether its prompt collects all messages that wait with it."""
        return self.rules is not None and self.rules.mode is QueueMode.COLLECT

    def steers(self, host: "ActiveRun") -> bool:
        """Returns whether its waiting message may enter the active run `host`.

        In mode `steer-backlog`, a message from before a restart may have entered a run already; it
        only gets its own turn.
        """
        if not self.is_queued or self.rules is None or not host.may_share(self):
            return False
        if self.rules.mode is QueueMode.STEER_BACKLOG:
            return self.arrived > -math.inf
        return self.rules.mode is QueueMode.STEER

    def may_share(self, candidate: "ActiveRun") -> bool:
        """Returns whether one run may answer both: same chat, and senders with equal rights.

        A run has the rights of its sender. A stranger's message in a run of the owner would get the
        owner's tools and memory, so it never enters one, not even in a group.
        """
        if self.request.origin is not candidate.request.origin:
            return False
        to, candidate_to = self.request.reply_to, candidate.request.reply_to
        if to is None or candidate_to is None:
            return to is candidate_to
        return (to.channel, to.account, to.peer, to.thread_id) == (
            candidate_to.channel,
            candidate_to.account,
            candidate_to.peer,
            candidate_to.thread_id,
        )

    def open(self, scope: anyio.CancelScope, *, exclusive: bool = False) -> None:
        """Notes that the loop begins; cancels a run that was aborted while it waited.

        `exclusive`: True if no message may enter the run.
        """
        self.scope = scope
        self.working = not exclusive
        if self.aborted_by is not None:
            scope.cancel()

    def close(self) -> None:
        """Notes that the loop has ended: messages cannot enter, and `abort` has no effect."""
        self.working = False
        self.scope = None
        self.finished = True

    @contextmanager
    def untimed(self) -> Generator[None]:
        """Excludes the duration of the block from the run's time limit."""
        scope, began = self.scope, anyio.current_time()
        if scope is None:
            yield
            return
        deadline, scope.deadline = scope.deadline, math.inf
        try:
            yield
        finally:
            scope.deadline = deadline + anyio.current_time() - began

    def add_to_mailbox(self, guest: "ActiveRun") -> None:
        """Adds a message to the mailbox; it enters after the present tool call."""
        self.steering.append(guest)
        if self.nudge is not None:
            self.nudge.set()

    def join(self, guest: "ActiveRun") -> None:
        """Notes that the guest's message has entered; from now on both are aborted together."""
        guest.host = self
        self.joined.append(guest)
        if guest.aborted_by is not None:
            self.abort(guest.aborted_by)

    def is_steered(self) -> bool:
        """Returns whether a message in the mailbox will enter after the present tool call."""
        return any(
            run.admitted.is_set() and not run.withdrawn and run.aborted_by is None
            for run in self.steering
        )

    def empty_mailbox(self) -> list["ActiveRun"]:
        """Empties the mailbox; returns the runs that did not enter, in order."""
        runs = list(self.steering)
        self.steering.clear()
        return runs

    def abort(self, by: str) -> bool:
        """Stops the run, now or at the start of its turn; returns False if it has finished.

        `aborted_by` is set by the first caller. For a run that has entered another, stops that run.
        """
        if self.host is not None:
            return self.host.abort(by)
        if self.finished:
            return False
        if self.aborted_by is None:
            self.aborted_by = by
        if self.scope is not None:
            self.scope.cancel()
        return True


def line(front: ActiveRun, behind: Sequence[ActiveRun]) -> list[ActiveRun]:
    """Returns the runs from `front` on that can share a prompt: same chat, rights and mode."""
    if not front.is_queued:
        return [front]
    room = MAX_CHARS - _chars(front.request)

    def belongs(run: ActiveRun) -> bool:
        nonlocal room
        room -= _chars(run.request)
        same = run.is_collected == front.is_collected and run.may_share(front)
        return room >= 0 and run.is_queued and same

    return [front, *takewhile(belongs, behind)]


def batch(front: ActiveRun, behind: Sequence[ActiveRun]) -> Batch:
    """Returns the runs that share the turn of `front`, selected from those `behind` it."""
    runs = line(front, behind)
    rules = runs[-1].rules
    if not front.is_queued or rules is None:
        return Batch((front,))
    over = max(0, len(runs) - rules.cap) if rules.drop is DropPolicy.SUMMARIZE else 0
    if front.is_collected:
        return Batch(tuple(runs), over)
    return Batch(tuple(runs[:over]), over) if over else Batch((front,))


def excess(queued: Sequence[ActiveRun], rules: QueueRules) -> list[ActiveRun]:
    """Returns the waiting messages that are dropped, in order.

    With `summarize` more messages than the cap may wait, and the prompt has a line for each
    additional one. It has at most `cap` lines (openclaw-behaviour 5.3), so messages beyond twice
    the cap are dropped without a line.
    """
    match rules.drop:
        case DropPolicy.NEW:
            return list(queued[rules.cap :])
        case DropPolicy.OLD:
            return list(queued[: max(0, len(queued) - rules.cap)])
        case DropPolicy.SUMMARIZE:
            return list(queued[: max(0, len(queued) - 2 * rules.cap)])


def _chars(request: RunRequest) -> int:
    """Returns the characters of a request, including those of its context and images."""
    context = request.context or MessageContext()
    texts = (request.text, context.facts, context.quoted, *(part.data for part in request.images))
    return sum(map(len, texts))


class ActiveRuns:
    """All active runs, by id and by session key, in the order of acceptance."""

    def __init__(self) -> None:
        self._runs: dict[RunId, ActiveRun] = {}
        self._accepted = 0
        self._sessions: dict[SessionKey, dict[RunId, ActiveRun]] = {}

    def get(self, run_id: RunId) -> ActiveRun | None:
        """Returns the run; None if it is not active."""
        return self._runs.get(run_id)

    def add(self, run: ActiveRun) -> None:
        """Adds the run; from now on its id is in use."""
        run_id, key = run.request.run_id, run.request.key
        self._accepted += 1
        run.serial = self._accepted
        self._runs[run_id] = run
        self._sessions.setdefault(key, {})[run_id] = run

    def withdraw(self, run: ActiveRun) -> None:
        """Removes a run that was not stored, and sets its events."""
        run.withdrawn = True
        self._remove(run)
        run.admitted.set()
        run.ended.set()

    def finish(self, run: ActiveRun, result: RunResult) -> None:
        """Stores the result of the run, removes the run, and sets its event."""
        run.result = result
        self._remove(run)
        run.ended.set()

    def of(self, key: SessionKey | None = None) -> list[ActiveRun]:
        """Returns the active runs of one session key, or all, oldest first."""
        chosen = self._runs if key is None else self._sessions.get(key, {})
        return list(chosen.values())

    def working(self, key: SessionKey) -> ActiveRun | None:
        """Returns the run of the session that a message can enter; None if there is none."""
        return next((run for run in self.of(key) if run.working and run.aborted_by is None), None)

    def _remove(self, run: ActiveRun) -> None:
        run_id, key = run.request.run_id, run.request.key
        if self._runs.get(run_id) is not run:
            return
        del self._runs[run_id]
        del self._sessions[key][run_id]
        if not self._sessions[key]:
            del self._sessions[key]
