"""Runs every unit twice, as a writer does whose transaction was undone: rows alone must tell."""

import sqlite3

import pytest

from skerry.store.condition import is_database_fault
from skerry.store.unit import Unit
from skerry.store.writer import Writer, _Job

_once = Writer._do


def _rehearse(writer: Writer, job: _Job) -> tuple[object, BaseException | None]:
    """Runs the unit and rolls it back; returns its value and its exception."""
    connection = writer._connection
    connection.execute("SAVEPOINT rehearsal")
    value, error = None, None
    try:
        value = job.work(Unit(connection, writer._condition.broken))
    except Exception as raised:  # noqa: BLE001 - it is compared with what the unit raises next
        error = raised
    if connection.in_transaction:
        connection.execute("ROLLBACK TO rehearsal")
        connection.execute("RELEASE rehearsal")
    return value, error


def _do(writer: Writer, job: _Job) -> None:
    value, error = _rehearse(writer, job)
    if not writer._connection.in_transaction:  # a full disk rolls all of it back
        assert error is not None
        job.error = writer._failed(error) if is_database_fault(error) else error
        raise sqlite3.OperationalError(str(error))
    _once(writer, job)
    first, second = (error, value), (job.error, job.value)
    if type(first[0]) is not type(second[0]) and not is_database_fault(first[0] or ValueError()):
        job.error = AssertionError(f"the second time {second[0]!r}, the first {first[0]!r}")
    elif job.error is None and first[1] != second[1]:
        job.error = AssertionError(f"the second time {second[1]!r}, the first {first[1]!r}")


def every_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has each unit of the test run twice, and each touch of the loop in it refused."""
    monkeypatch.setattr(Writer, "_do", _do)
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")  # a call of the loop from another thread raises
