"""`/queue` and `/stop`: handling of messages during a run, and its stop. Both work during a run."""

from typing import Any, Final

import msgspec

from skerry.app.command_dependencies import CommandDependencies
from skerry.commands.queueing import parse
from skerry.commands.table import Argument, Command, CommandCall, CommandError
from skerry.lanes.active_runs import ActiveRun
from skerry.model.ids import SessionKey
from skerry.model.queue import CHOICES
from skerry.model.session import SessionSettings
from skerry.store import Reader, Unit, archive, sessions

STOPPED_BY: Final = "stop"
ABORT_WORDS: Final = frozenset(
    {
        *(
            "stop",
            "esc",
            "abort",
            "wait",
            "exit",
            "interrupt",
            "halt",
            "stop please",
            "please stop",
        ),
        *("stopp", "anhalten", "aufhören", "hör auf", "arrête", "arrete", "arrêtez", "detente"),
        *("detén", "deten", "para", "pare", "fermati", "стоп", "остановись", "останови", "хватит"),
        *("停止", "停", "止めて", "やめて", "रुको", "توقف", "dur", "zatrzymaj"),
    }
)
"""Messages that stop a run when they are the whole of it (openclaw-behaviour 4.8)."""


def commands(desk: CommandDependencies) -> tuple[Command, ...]:
    """Returns `/queue` and `/stop`."""
    store = desk.dispatcher.runtime.store

    async def queue(call: CommandCall) -> str:
        changes = parse(call.arguments)
        if changes:
            settings = await store.write(lambda unit: _change(unit, str(call.key), changes))
        else:
            settings = await store.read(lambda reader: _settings(reader, str(call.key)))
        rules = desk.config().messages.queue.rules(call.channel, settings)
        line = {session.key: session for session in desk.dispatcher.queue().sessions}.get(
            str(call.key)
        )
        waiting = line.waiting if line else 0
        return (
            f"Queue: `{rules.mode}`, debounce {rules.debounce_ms} ms, cap {rules.cap}, drop"
            f" `{rules.drop}`. {waiting} waiting."
        )

    async def stop(call: CommandCall) -> str:
        if call.run_id is None:
            raise CommandError("This chat has no conversation to stop.")
        stopped = desk.dispatcher.stop(call.key, call.run_id, STOPPED_BY)
        if not stopped:
            return "Nothing is running."
        running = desk.dispatcher.runtime.running
        children = [run for run in stopped if _is_elsewhere(running.get(run), call.key)]
        own_count = len(stopped) - len(children)
        details = f" {own_count - 1} waiting cleared." if own_count > 1 else ""
        if children:
            details += f" Stopped {len(children)} sub-agent{'s' * (len(children) != 1)}."
        return f"⚙️ Agent was aborted.{details}"

    return (
        Command(
            "queue",
            "shows or sets the handling of messages during a run",
            queue,
            accepts_arguments=True,
            at_once=True,
            listed=True,
            arguments=(
                Argument("mode", choices=(*CHOICES, "default")),
                Argument("options", "debounce:2s cap:25 drop:old"),
            ),
            category="options",
        ),
        Command(
            "stop",
            "stops the run and clears the waiting messages",
            stop,
            accepts_arguments=True,  # accepts "/stop, please" too
            owner_only=False,
            at_once=True,
            aliases=("abort",),
            words=ABORT_WORDS,
            category="session",
        ),
    )


def _is_elsewhere(run: ActiveRun | None, key: SessionKey) -> bool:
    return run is not None and run.request.key != key


def _settings(reader: Reader, key: str) -> SessionSettings:
    session = sessions.find(reader, key)
    return session.settings if session else SessionSettings()


def _change(unit: Unit, key: str, changes: dict[str, Any]) -> SessionSettings:
    """Stores settings in the key's present session, which the run of this command created."""
    session = sessions.find(unit, key)
    if session is None:
        return SessionSettings()
    settings = msgspec.structs.replace(session.settings, **changes)
    archive.change(unit, session.session_id, label=session.label, settings=settings)
    return settings
