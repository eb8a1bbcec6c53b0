"""Captures messages after the answer (seed 000, "Auto-capture"; seed 001, second hook).

`agent_end` only wakes the service. The service reads the transcripts from its cursor, writes the
texts to send and the cursor in one transaction, and sends until the server answers. A kill at any
point loses no text, and the key of a text prevents a second copy at the server.
"""

import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

import anyio

from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import AgentEnd
from skerry.sdk.messages import Origin
from skerry.sdk.transcripts import SpokenRow, Transcripts
from skerry_memwal.client import MAX_ANALYZE, MemWalError
from skerry_memwal.outbox import Letter, Outbox
from skerry_memwal.recall import PromptTexts
from skerry_memwal.relayer import Relayer
from skerry_memwal.texts import should_capture, stripped, units

MIN_CAPTURABLE: Final = 10
"""UTF-16 units; messages that are not longer after the removal of blocks are skipped."""
COMMIT_SECONDS: Final = 30.0
"""Time limit for the COMMIT of the end of a run, which follows `agent_end`."""
PREPARE_SECONDS: Final = 5.0
"""Limit of the wait for the cursor when the plugin is loaded, which has ten seconds."""
PAUSE_SECONDS: Final = 0.5
"""Pause after a run; messages that arrive meanwhile are processed together with it."""
PAGE: Final = 200
"""Messages of one read: a larger read would increase the memory of the process."""
BATCH: Final = 20
"""Texts that are removed from the outbox at once; a kill before sends them again."""
PROBE_SECONDS: Final = 15.0
"""Seconds between two requests to a server that does not answer."""
_SAFE: Final = frozenset({Origin.OWNER, Origin.LOCAL, Origin.MEMORY, Origin.BOOT})
"""Origins of texts that leave an answer without words of other people."""
_WAITS: Final = frozenset({401, 402, 403, 404, 408, 426})
"""Statuses of refusals that a change of the configuration or account can end; the text waits."""


class Capture:
    """The handler of `agent_end` and the service behind it."""

    def __init__(
        self, api: PluginApi, relayer: Relayer, outbox: Outbox, prompt_texts: PromptTexts
    ) -> None:
        self._reach = api.reach
        self._relayer = relayer
        self._outbox = outbox
        self._prompt_texts = prompt_texts
        self._transcripts: Transcripts = api.transcripts
        self._wake = anyio.Event()
        self._has_waiting = True
        """False when the outbox is known to have nothing to send."""

    async def on_agent_end(self, event: AgentEnd) -> None:
        """Wakes the service after a run has ended."""
        if event.success:
            self._wake.set()

    async def prepare(self) -> None:
        """Stores the cursor before a message is accepted, so that the first message is captured.

        A slow disk must not prevent the loading of the plugin; the service then stores the cursor.
        """
        try:
            with anyio.move_on_after(PREPARE_SECONDS):
                await self._begin()
        except Exception:  # the service tries again; the tools work without the cursor
            self._relayer.logger.exception("memory-memwal: the cursor cannot be stored yet")

    async def run(self) -> None:
        """Captures until cancelled."""
        cursor = await self._begin()
        await self._log_health()
        try:
            if cursor is None:
                await self._watch()
            else:
                await self._capture(cursor)
        finally:
            self._relayer.logger.info("memory-memwal: stopped")

    async def _begin(self) -> int | None:
        """Returns the cursor; None if nothing is captured."""
        if not self._relayer.options.auto_capture:
            await self._outbox.pause()
            return None
        cursor = await self._outbox.cursor()
        if cursor is None:
            cursor = await self._transcripts.latest()
            await self._outbox.write(cursor, ())
        return cursor

    async def _log_health(self) -> None:
        """Logs whether the server answers."""
        relayer = self._relayer
        health = await relayer.probe()
        if health is None:
            relayer.logger.warning("memory-memwal: health check failed: %s", relayer.error)
        else:
            relayer.logger.info(
                "memory-memwal: connected (status: %s, version: %s)", health.status, health.version
            )

    async def _watch(self) -> None:
        """Checks repeatedly whether a server that failed answers again."""
        while True:
            await anyio.sleep(PROBE_SECONDS)
            if self._relayer.is_resting:
                await self._relayer.probe()

    async def _capture(self, cursor: int) -> None:
        while True:
            cursor = await self._collect(cursor)
            is_empty = await self._send()
            with anyio.move_on_after(None if is_empty else PROBE_SECONDS):
                await self._wake.wait()
                await anyio.sleep(PAUSE_SECONDS)
                self._wake = anyio.Event()
                with anyio.move_on_after(COMMIT_SECONDS):
                    await self._transcripts.wait(cursor)

    async def _collect(self, cursor: int) -> int:
        """Writes the new messages into the outbox; returns the new cursor."""
        while rows := await self._transcripts.since(cursor, PAGE):
            if len(rows) == PAGE:  # the last run may continue after the limit
                rows = [row for row in rows if _run(row) != _run(rows[-1])] or rows
            letters = [letter for run in _runs(rows) if (letter := self._letter(run)) is not None]
            self._reach("memwal.collected")
            cursor = rows[-1].serial
            await self._outbox.write(cursor, letters)
            self._has_waiting = self._has_waiting or bool(letters)
            self._reach("memwal.stored")
        return cursor

    def _letter(self, run: Sequence[SpokenRow]) -> Letter | None:
        """Returns the text to send for the messages of a run; None if there is none."""
        options = self._relayer.options
        messages = [row for row in capturable(run) if row.text][-options.capture_max_messages :]
        if not messages:
            return None
        agent = messages[-1].agent_id
        texts = [self._prompt_texts.unquoted(stripped(row.text)).strip() for row in messages]
        captured = [text for text in texts if units(text) > MIN_CAPTURABLE and should_capture(text)]
        if not captured:
            self._relayer.logger.debug(
                "memory-memwal: auto-capture skipped — no capturable content (agent: %s, %d"
                " messages checked)",
                agent,
                len(messages),
            )
            return None
        body = "\n\n".join(f"{number}. {text}" for number, text in enumerate(captured, 1))
        return Letter(
            agent,
            self._relayer.namespace(agent),
            body.encode()[:MAX_ANALYZE].decode(errors="ignore"),
            _iso(messages[-1].at),
            f"skerry-{uuid.uuid4()}",
        )

    async def _send(self) -> bool:
        """Sends the waiting texts, the oldest first; returns whether all were answered.

        The texts of an agent whose account is refused wait; those of other agents are sent.
        """
        refused: set[str] = set()
        while self._has_waiting:
            letters = await self._outbox.waiting(BATCH, refused)
            if not await self._send_batch(letters, refused):
                return False
            if len(letters) < BATCH:
                self._has_waiting = bool(refused)
                break
        return not refused

    async def _send_batch(self, letters: Sequence[Letter], refused: set[str]) -> bool:
        """Sends texts; returns False when the server does not answer.

        Adds the agents whose account is refused to `refused`, and skips their texts.
        """
        answered: list[Letter] = []
        try:
            for letter in letters:
                error = None if letter.agent in refused else await self._delivered(letter)
                if error is not None and error.status not in _WAITS:
                    return False
                if error is not None:
                    refused.add(letter.agent)
                if letter.agent not in refused:
                    answered.append(letter)
        finally:
            with anyio.CancelScope(shield=True):
                if answered:
                    await self._outbox.sent(answered)
        return True

    async def _delivered(self, letter: Letter) -> MemWalError | None:
        """Sends a text; returns None when it was stored, or refused permanently."""
        relayer = self._relayer
        self._reach("memwal.sending")
        try:
            facts = await relayer.client(letter.agent).analyze(
                letter.text,
                letter.namespace,
                occurred_at=letter.occurred_at,
                key=letter.key,
            )
        except MemWalError as error:
            relayer.failed(error)
            relayer.logger.warning("memory-memwal: auto-capture failed: %s", error)
            if error.retry or error.status is None or error.status in _WAITS:
                return error
            await self._outbox.refuse(letter, str(error))
            return None
        relayer.answered()
        self._reach("memwal.answered")
        relayer.logger.info(
            "memory-memwal: auto-captured %d facts (agent: %s, namespace: %s)",
            len(facts),
            letter.agent,
            letter.namespace,
        )
        return None


def _run(row: SpokenRow) -> tuple[str, str]:
    return row.session_id, row.run_id


def _runs(rows: Sequence[SpokenRow]) -> Iterator[list[SpokenRow]]:
    """Yields the messages of each run, in the order of their numbers."""
    for _, group in groupby(rows, _run):
        yield list(group)


def capturable(run: Sequence[SpokenRow]) -> Iterator[SpokenRow]:
    """Yields the messages of the owner, and the answers without words of other people.

    An answer may repeat what an earlier run of the session has read.
    """
    is_safe = True
    for row in run:
        if not row.is_private:
            return
        is_safe = is_safe and row.origin in _SAFE and not row.is_tainted
        is_owners = row.role == "user" and row.origin is Origin.OWNER
        if is_owners or (row.role == "assistant" and is_safe):
            yield row


def _iso(at_ms: int) -> str:
    text = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
