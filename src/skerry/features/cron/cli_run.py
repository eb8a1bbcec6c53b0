"""`skerry cron`: lists, adds, changes and runs jobs over the gateway."""

import os
from argparse import Namespace
from collections.abc import Mapping
from typing import Any, Final

import anyio

from skerry.cli.render import local_time, notice, one_line, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.config.session import duration, span
from skerry.features.cron.errors import JobError, JobNotFoundError
from skerry.infra.clock import SystemClock, iso

READ: Final = ("operator.read",)
ADMIN: Final = ("operator.admin",)
_READING: Final = frozenset({"list", "show", "runs", "status"})
_EMPTY: Final = (
    "No jobs. Add one: skerry cron add --name Greeting --cron '0 7 * * *'"
    " --message 'Wish me a good morning.'"
)


def run(arguments: Namespace) -> int:
    """Runs `skerry cron ...`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    address = find(os.environ, url=arguments.url, token=arguments.token)
    scopes = READ if arguments.action in _READING else ADMIN
    async with GatewayClient(address, scopes=scopes) as client:
        return await _ACTIONS[arguments.action](client, arguments)


async def _add(client: GatewayClient, arguments: Namespace) -> int:
    fields = _fields(arguments)
    for name, option in (("schedule", "--at, --every or --cron"), ("payload", "--message")):
        if name not in fields:
            raise JobError(f"The job has no {name}.", f"Pass {option}.")
    job = await client.request("cron.add", fields)
    return _print_result(
        arguments, job, f"Job {job['id']} was added; its first run is {_next(job)}."
    )


async def _edit(client: GatewayClient, arguments: Namespace) -> int:
    before = await _job(client, arguments.job)
    patch = _fields(arguments, before)
    if not patch:
        raise JobError("No option changes the job.", "See skerry cron edit --help.")
    job = await client.request("cron.update", {"id": before["id"], "patch": patch})
    return _print_result(
        arguments, job, f"Job {job['id']} was changed; its next run is {_next(job)}."
    )


async def _switch(client: GatewayClient, arguments: Namespace) -> int:
    job = await _job(client, arguments.job)
    on = arguments.action == "enable"
    job = await client.request("cron.update", {"id": job["id"], "patch": {"enabled": on}})
    text = f"on; its next run is {_next(job)}" if on else "off"
    return _print_result(arguments, job, f"Job {job['id']} is switched {text}.")


async def _remove(client: GatewayClient, arguments: Namespace) -> int:
    job = await _job(client, arguments.job)
    answer = await client.request("cron.remove", {"id": job["id"]})
    return _print_result(arguments, answer, f"Job {job['id']} was removed.")


async def _start(client: GatewayClient, arguments: Namespace) -> int:
    job = await _job(client, arguments.job)
    mode = "due" if arguments.due else "force"
    answer = await client.request("cron.run", {"id": job["id"], "mode": mode})
    began = answer.get("enqueued") or answer.get("ran")
    text = f"Job {job['id']} runs: skerry cron runs {job['id'][:8]}"
    if not began:
        text = f"Job {job['id']} was not run: {answer.get('reason')}."
    return (
        _print_result(arguments, answer, text)
        if began
        else _print_result(arguments, answer, text) or 1
    )


async def _list(client: GatewayClient, arguments: Namespace) -> int:
    jobs = await _jobs(client, include_disabled=arguments.all)
    if arguments.json:
        show_json(jobs)
        return 0
    if not jobs:
        disabled_jobs = 0 if arguments.all else len(await _jobs(client, include_disabled=True))
        show(
            f"{disabled_jobs} jobs are switched off: skerry cron list --all"
            if disabled_jobs
            else _EMPTY
        )
        return 0
    lines: list[tuple[str, ...]] = [("JOB", "NAME", "SCHEDULE", "NEXT", "LAST", "STATE")]
    lines += [_line(job) for job in jobs]
    show(table(lines))
    return 0


async def _show(client: GatewayClient, arguments: Namespace) -> int:
    job = await _job(client, arguments.job)
    if arguments.json:
        show_json(job)
        return 0
    state, payload = job["state"], job["payload"]
    facts = [
        ("id", job["id"]),
        ("name", one_line(job["name"])),
        ("agent", job["agentId"]),
        ("schedule", schedule(job["schedule"])),
        ("target", job["sessionTarget"]),
        ("text", one_line(payload.get("message") or payload.get("text", ""))),
        ("reply", one_line(job["deliveryPreview"]["detail"])),
        ("next run", _next(job)),
        ("last run", _last(job)),
    ]
    if state.get("lastError"):
        facts.append(("last error", one_line(state["lastError"])))
    if state.get("offReason"):
        facts.append(("switched off", f"after {state['offReason']}"))
    show(table(facts))
    return 0


async def _runs(client: GatewayClient, arguments: Namespace) -> int:
    params: dict[str, Any] = {"limit": arguments.limit}
    if arguments.job:
        params["id"] = await _id(client, arguments.job)
    entries = (await client.request("cron.runs", params))["entries"]
    if arguments.json:
        show_json(entries)
        return 0
    if not entries:
        show("No job has run.")
        return 0
    lines: list[tuple[str, ...]] = [("ENDED", "JOB", "STATUS", "SECONDS", "REPLY", "TEXT")]
    for entry in entries:
        text = entry.get("error") or entry.get("summary") or "-"
        lines.append(
            (
                _time(entry["ts"]),
                entry["jobId"][:8],
                entry["status"],
                f"{entry.get('durationMs', 0) / 1000:.1f}",
                entry.get("deliveryStatus", "-"),
                one_line(text)[:60],
            )
        )
    show(table(lines))
    return 0


async def _status(client: GatewayClient, arguments: Namespace) -> int:
    status = await client.request("cron.status", {})
    if arguments.json:
        show_json(status)
        return 0
    next_at = status["nextWakeAtMs"]
    show(f"{status['jobs']} jobs; the next run is {_time(next_at) if next_at else 'not planned'}.")
    if not status["enabled"]:
        notice("Jobs are not started: cron.enabled is false.")
    return 0


def _print_result(arguments: Namespace, answer: Any, text: str) -> int:
    if arguments.json:
        show_json(answer)
    else:
        show(text)
    return 0


async def _jobs(client: GatewayClient, *, include_disabled: bool) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        params = {"includeDisabled": include_disabled, "limit": 200, "offset": offset}
        page = await client.request("cron.list", params)
        jobs += page["jobs"]
        offset = page["nextOffset"]
    return jobs


async def _job(client: GatewayClient, text: str) -> dict[str, Any]:
    job: dict[str, Any] = await client.request("cron.get", {"id": await _id(client, text)})
    return job


async def _id(client: GatewayClient, text: str) -> str:
    """Returns the id of the job whose id begins with the text, or whose name is the text.

    Raises:
        JobNotFoundError: no job matches, or several.
    """
    jobs = await _jobs(client, include_disabled=True)
    fitting = [job["id"] for job in jobs if text in {job["id"], job["name"]}]
    fitting = fitting or [job["id"] for job in jobs if job["id"].startswith(text)]
    if len(fitting) == 1:
        return str(fitting[0])
    if fitting:
        raise JobError(f"{len(fitting)} jobs begin with {text!r}.", "Pass more of the id.")
    raise JobNotFoundError(text)


def _fields(arguments: Namespace, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the properties of a job from the options."""
    fields: dict[str, Any] = {
        name: value
        for name, value in (
            ("name", arguments.name),
            ("agentId", arguments.agent),
            ("sessionKey", arguments.session),
            ("description", arguments.description),
            ("deleteAfterRun", arguments.delete_after_run),
            ("wakeMode", arguments.wake),
            ("enabled", False if arguments.disabled else None),
        )
        if value is not None
    }
    if (when := _schedule(arguments, before)) is not None:
        fields["schedule"] = when
    if (payload := _payload(arguments, before)) is not None:
        fields["payload"] = payload
        if before is None or payload["kind"] != before["payload"]["kind"]:
            fields["sessionTarget"] = "main" if payload["kind"] == "systemEvent" else "isolated"
    if (delivery := _delivery(arguments)) is not None:
        fields["delivery"] = delivery
    return fields


def _schedule(arguments: Namespace, before: Mapping[str, Any] | None) -> dict[str, Any] | None:
    old = before["schedule"] if before else {}
    if arguments.at:
        return {"kind": "at", "at": _moment(arguments.at)}
    if arguments.every:
        return {"kind": "every", "everyMs": _span(arguments.every)}
    stagger = 0 if arguments.exact else _span(arguments.stagger) if arguments.stagger else None
    changes = {"expr": arguments.cron, "tz": arguments.tz, "staggerMs": stagger}
    fields = {name: value for name, value in changes.items() if value is not None}
    if not fields:
        return None
    if "expr" not in fields and old.get("kind") != "cron":
        raise JobError("The options --tz, --stagger and --exact need --cron.", "Pass --cron.")
    return {"kind": "cron", **(old if old.get("kind") == "cron" else {}), **fields}


def _payload(arguments: Namespace, before: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if arguments.system_event:
        return {"kind": "systemEvent", "text": arguments.system_event}
    options = {
        "message": arguments.message,
        "model": arguments.model,
        "thinking": arguments.thinking,
        "timeoutSeconds": arguments.timeout_seconds,
    }
    fields = {name: value for name, value in options.items() if value is not None}
    if not fields or ("message" not in fields and before is None):
        return None
    return {"kind": "agentTurn", **fields}


def _delivery(arguments: Namespace) -> dict[str, Any] | None:
    if arguments.no_deliver:
        return {"mode": "none"}
    if arguments.webhook:
        return {"mode": "webhook", "to": arguments.webhook}
    named = {"channel": arguments.channel, "to": arguments.to, "accountId": arguments.account}
    target = {name: value for name, value in named.items() if value}
    return {"mode": "announce", **target} if target or arguments.announce else None


def _span(text: str) -> int:
    """Returns the milliseconds of a text such as 10m.

    Raises:
        JobError: the text is not a span; a number needs a unit.
    """
    try:
        if text.strip().isdecimal():
            raise ValueError("it has no unit")  # noqa: TRY301 - handled like an invalid text
        return int(str(duration(text)))
    except ValueError as error:
        message = f"Invalid span {text!r}: {error}."
        raise JobError(message, "Pass a number with s, m, h or d, such as 10m.") from error


def _moment(text: str) -> str:
    """Returns an ISO 8601 time; a span such as 20m counts from now."""
    try:
        milliseconds = _span(text)
    except JobError:
        return text
    return iso(SystemClock().now_ms() + milliseconds)


def schedule(value: Mapping[str, Any]) -> str:
    """Describes a schedule."""
    match value["kind"]:
        case "at":
            return one_line(f"at {value['at']}")
        case "every":
            return f"every {span(value['everyMs'])}"
        case _:
            zone = f" {value['tz']}" if value.get("tz") else ""
            return one_line(f"{value['expr']}{zone}")


def _line(job: Mapping[str, Any]) -> tuple[str, ...]:
    state = "on" if job["enabled"] else "off"
    if "runningAtMs" in job["state"]:
        state = "running"
    return (
        job["id"][:8],
        one_line(job["name"])[:30],
        schedule(job["schedule"])[:40],
        _next(job),
        _last(job),
        state,
    )


def _next(job: Mapping[str, Any]) -> str:
    at = job.get("nextRunAtMs")
    return _time(at) if at else "-"


def _last(job: Mapping[str, Any]) -> str:
    state = job["state"]
    at = state.get("lastRunAtMs")
    return f"{_time(at)} {state.get('lastStatus', '')}" if at else "-"


def _time(milliseconds: int) -> str:
    return local_time(milliseconds, seconds=True)


_ACTIONS: Final = {
    "add": _add,
    "disable": _switch,
    "edit": _edit,
    "enable": _switch,
    "list": _list,
    "remove": _remove,
    "run": _start,
    "runs": _runs,
    "show": _show,
    "status": _status,
}
