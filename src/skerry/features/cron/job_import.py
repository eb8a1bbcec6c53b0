"""Imports jobs of another installation, switched off and without foreign receivers."""

import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from skerry.features.cron import job_records, tables
from skerry.features.cron.editing import new_job
from skerry.features.cron.errors import JobError, ScheduleError
from skerry.features.cron.jobs import Job, decode_job, encode
from skerry.store import Unit

_SCHEDULE: Final = ("kind", "at", "everyMs", "anchorMs", "expr", "tz", "staggerMs")
_PAYLOAD: Final = ("kind", "text", "message", "model", "thinking", "timeoutSeconds")
_PLAIN: Final = {"description": str, "deleteAfterRun": bool}
_LATEST_MS: Final = 253_402_300_000_000
"""End of the year 9999, the latest possible time."""


class JobImporter:
    """Jobs of another installation, for the agents of this one.

    A job is imported switched off, and its replies go to the owner's last chat or to no chat,
    because the author of the other file must choose neither times nor receivers here.
    """

    def __init__(self, agents: Iterable[str], default: str, now: int) -> None:
        self._agents = frozenset(agents)
        self._default = default
        self._now = now
        self.jobs: list[Job] = []
        self.changed: list[str] = []
        """Names of jobs whose replies went to a chat or webhook of the job."""
        self.refused: list[tuple[str, str]] = []
        """Name of each refused job, with the reason."""

    def read(self, listed: Iterable[object]) -> None:
        """Reads the jobs of a list and skips other entries; the first of an id counts."""
        for entry in listed:
            if not isinstance(entry, dict):
                continue
            name = str(entry.get("name") or entry.get("id") or "unnamed")
            if _id(entry, name) in {job.id for job in self.jobs}:
                continue
            try:
                self.jobs.append(self._job(entry, name))
            except (JobError, ScheduleError) as error:
                self.refused.append((name, str(error)))
                continue
            if _is_addressed(entry):
                self.changed.append(name)

    @property
    def names(self) -> list[str]:
        """Returns the names of the imported jobs."""
        return [job.name for job in self.jobs]

    def store(self, unit: Unit) -> None:
        """Stores the jobs that do not exist yet."""
        new = [job for job in self.jobs if tables.get(unit, job.id) is None]
        if tables.count(unit) + len(new) > job_records.MAX_JOBS:
            raise JobError(
                f"The import exceeds the limit of {job_records.MAX_JOBS} cron jobs.",
                "Remove some of them.",
            )
        for job in new:
            job_records.put(unit, job)

    def _job(self, entry: Mapping[str, Any], name: str) -> Job:
        agent = str(entry.get("agentId") or self._default)
        if agent not in self._agents:
            raise JobError(f"Unknown agent {agent!r}.", "Add the agent and the job.")
        schedule, payload = entry.get("schedule"), entry.get("payload")
        if not (isinstance(schedule, dict) and isinstance(payload, dict)):
            raise JobError("The job has no schedule or no payload.", "Add it with skerry cron add.")
        plain = {
            key: entry.get(key) for key, kind in _PLAIN.items() if isinstance(entry.get(key), kind)
        }
        fields = plain | {
            "name": name,
            "agentId": agent,
            "enabled": False,
            "schedule": _schedule(schedule),
            "payload": _some(payload, _PAYLOAD),
        }
        if _is_silent(entry):
            fields["delivery"] = {"mode": "none"}
        job = new_job(_id(entry, name), fields, agent, self._now)
        try:
            return decode_job(encode(job))
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise JobError(
                f"The job cannot be stored: {error}.", "Add it with skerry cron add."
            ) from error


def _schedule(schedule: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a schedule to the present form; an earlier form has the time as a number."""
    fields = _some(schedule, _SCHEDULE)
    at = schedule.get("atMs")
    if fields.get("kind") == "at" and "at" not in fields and isinstance(at, int):
        if not 0 <= at <= _LATEST_MS:
            raise ScheduleError(f"The time {at} is out of range.", "Pass a future time.")
        fields["at"] = datetime.fromtimestamp(at / 1000, UTC).isoformat()
    return fields


def _given_delivery(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the delivery of a job; earlier versions store it in the payload."""
    delivery = entry.get("delivery")
    return delivery if isinstance(delivery, dict) else entry["payload"]


def _is_silent(entry: Mapping[str, Any]) -> bool:
    delivery = _given_delivery(entry)
    return delivery.get("mode") == "none" or delivery.get("deliver") is False


def _is_addressed(entry: Mapping[str, Any]) -> bool:
    """Returns true when replies went to a chat or webhook of the job."""
    return bool(_given_delivery(entry).get("to")) and not _is_silent(entry)


def _id(entry: Mapping[str, Any], name: str) -> str:
    """Returns an id that is the same for each import of the job."""
    try:
        return str(uuid.UUID(str(entry.get("id"))))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"openclaw {entry.get('id')} {name}"))


def _some(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if fields.get(name) is not None}
