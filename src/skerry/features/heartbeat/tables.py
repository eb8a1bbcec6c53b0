"""The table of heartbeats: one row for each agent, and one for the switch of all."""

from skerry.store.unit import Reader, Unit

STEPS: tuple[str, ...] = (
    "CREATE TABLE heartbeat_state (agent TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
)
KEPT: tuple[str, ...] = ()
"""Tables whose newer rows stay when a backup is restored."""
TEXTS = ((("heartbeat_state", ("agent",), ("body",), "agent = ?"), (("preview",), ("digest",))),)
"""Columns with text of people, which an erasure searches (`store.forgetting_tables`)."""


def get(reader: Reader, agent: str) -> bytes | None:
    """Returns the state of an agent, or of the switch `*`."""
    row = reader.one("SELECT body FROM heartbeat_state WHERE agent = ?", (agent,))
    return bytes(row[0]) if row else None


def put(unit: Unit, agent: str, body: bytes) -> None:
    """Stores the state of an agent, or of the switch `*`."""
    unit.execute(
        "INSERT INTO heartbeat_state (agent, body) VALUES (?, ?)"
        " ON CONFLICT (agent) DO UPDATE SET body = excluded.body",
        (agent, body),
    )


def all_bodies(reader: Reader) -> dict[str, bytes]:
    """Returns all states, by agent."""
    rows = reader.all("SELECT agent, body FROM heartbeat_state ORDER BY agent")
    return {str(agent): bytes(body) for agent, body in rows}
