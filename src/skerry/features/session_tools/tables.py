"""Unfinished exchanges between two conversations that `sessions_send` started.

Text is only stored in the transcripts, where an erasure finds it.
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from skerry.model.ids import RunId
from skerry.model.run import RunRequest
from skerry.store.unit import Reader, Row, Unit

STEPS: Final = (
    """
    CREATE TABLE session_tools_exchanges (
        id TEXT PRIMARY KEY,
        asker TEXT NOT NULL,
        target TEXT NOT NULL,
        request BLOB NOT NULL,
        turn INTEGER NOT NULL,
        stage TEXT NOT NULL,
        run_id TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX session_tools_exchanges_of_run ON session_tools_exchanges (run_id)
    """,
)
KEPT: tuple[str, ...] = ()
"""Tables whose newer rows stay when a backup is restored."""
TEXTS: Final = ()
"""No column contains text of people; an erasure reads this."""
_COLUMNS: Final = "id, asker, target, request, turn, stage, run_id"
_requests: Final = msgspec.json.Decoder(RunRequest)


class Stage(StrEnum):
    """Kind of the run for which an exchange waits."""

    REQUESTED = "asked"
    """The run that the message of `sessions_send` started."""
    TURN = "turn"
    ANNOUNCE = "announce"


class AgentExchange(Struct, frozen=True):
    """One exchange."""

    id: str
    asker: str
    """Session key of the conversation that sent the message."""
    target: str
    request: RunRequest
    """First request without its text: each turn has its rights."""
    turn: int
    """Number of turns after the first answer."""
    stage: Stage
    run_id: RunId
    """Run for which the exchange waits."""


def _exchange(row: Row) -> AgentExchange:
    name, asker, target, request, turn, stage, run_id = row
    return AgentExchange(
        name, asker, target, _requests.decode(request), turn, Stage(stage), RunId(run_id)
    )


def put(unit: Unit, exchange: AgentExchange) -> None:
    """Adds an exchange, or stores its next step."""
    unit.execute(
        f"INSERT INTO session_tools_exchanges ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - a constant
        " ON CONFLICT (id) DO UPDATE SET turn = excluded.turn, stage = excluded.stage,"
        " run_id = excluded.run_id",
        (
            exchange.id,
            exchange.asker,
            exchange.target,
            msgspec.json.encode(exchange.request),
            exchange.turn,
            exchange.stage.value,
            exchange.run_id,
        ),
    )


def end(unit: Unit, name: str) -> None:
    """Removes an ended exchange."""
    unit.execute("DELETE FROM session_tools_exchanges WHERE id = ?", (name,))


def of_run(reader: Reader, run_id: str) -> AgentExchange | None:
    """Returns the exchange that waits for a run."""
    row = reader.one(f"SELECT {_COLUMNS} FROM session_tools_exchanges WHERE run_id = ?", (run_id,))  # noqa: S608 - a constant
    return None if row is None else _exchange(row)


def unfinished(reader: Reader) -> list[AgentExchange]:
    """Returns the unfinished exchanges."""
    rows = reader.all(f"SELECT {_COLUMNS} FROM session_tools_exchanges ORDER BY id", ())  # noqa: S608 - a constant
    return [_exchange(row) for row in rows]
