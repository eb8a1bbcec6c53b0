"""`skerry sessions`: lists, shows, exports, names, deletes and restores conversations."""

import os
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import anyio

from skerry.app.build import open_state
from skerry.cli.render import notice, one_line, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.config.load import load
from skerry.features.sessions import cli_transcripts as transcripts
from skerry.features.sessions.cli_transcripts import Transcript
from skerry.infra.atomic import write_atomic
from skerry.model.errors import ClientError, GatewayUnreachableError

_FORMATS: Final = MappingProxyType(
    {"jsonl": transcripts.as_jsonl, "markdown": transcripts.as_markdown}
)


def run(arguments: Namespace) -> int:
    """Runs `skerry sessions` with an action; returns the exit code."""
    if arguments.action == "mirror":
        return anyio.run(_mirror, arguments)
    return anyio.run(_ask, arguments)


async def _ask(arguments: Namespace) -> int:
    action = _ACTIONS[arguments.action]
    try:
        async with GatewayClient(
            find(os.environ, url=arguments.url, token=arguments.token)
        ) as client:
            await action(client, arguments)
    except GatewayUnreachableError as error:
        if arguments.action in {"list", "show", "export"}:
            error.remedy = (
                "Start it with `skerry gateway run`. Without it, every transcript is a file:"
                " agents/<agent>/sessions/*.jsonl in the state directory."
            )
        raise
    return 0


async def _list(client: GatewayClient, arguments: Namespace) -> None:
    params: dict[str, Any] = {
        "limit": arguments.limit,
        "archived": arguments.archived,
        "includeDerivedTitles": True,
        "includeLastMessage": True,
    }
    if arguments.agent:
        params["agentId"] = arguments.agent
    if arguments.search:
        params["search"] = arguments.search
    payload = await client.request("sessions.list", params)
    rows = payload["sessions"]
    if arguments.json:
        show_json(rows)
        return
    if not rows:
        show("No archived conversations." if arguments.archived else "No conversations.")
        return
    lines = [("KEY", "LAST USED", "TOKENS", "TITLE", *(("RESTORE",) if arguments.archived else ()))]
    lines += [_line(row, archived=arguments.archived) for row in rows]
    show(table(lines))
    if payload.get("hasMore"):
        notice(f"The latest {len(rows)} of {payload['totalCount']}; pass --limit for more.")


def _line(row: dict[str, Any], *, archived: bool) -> tuple[str, ...]:
    used = datetime.fromtimestamp(row["updatedAt"] / 1000, UTC).astimezone()
    title = one_line(row.get("label") or row.get("derivedTitle") or "")
    line = (row["key"], f"{used:%Y-%m-%d %H:%M}", str(row["totalTokens"]), title)
    return (*line, row["sessionId"]) if archived else line


async def _show(client: GatewayClient, arguments: Namespace) -> None:
    transcript = await _read(client, arguments)
    if arguments.json:
        show_json(
            {
                "key": transcript.key,
                "sessionId": transcript.session_id,
                "messages": transcript.messages,
            }
        )
        return
    lines = transcripts.as_jsonl if arguments.jsonl else transcripts.as_text
    for line in lines(transcript):
        show(line)


async def _export(client: GatewayClient, arguments: Namespace) -> None:
    transcript = await _read(client, arguments)
    write: Callable[[Transcript], Iterator[str]] = _FORMATS[arguments.format]
    lines = write(transcript)
    if arguments.output is None:
        for line in lines:
            show(line)
        return
    target = Path(arguments.output)
    text = "".join(f"{line}\n" for line in lines)
    await anyio.to_thread.run_sync(write_atomic, target, text.encode())
    notice(f"{len(transcript.messages)} messages written to {target}")


async def _read(client: GatewayClient, arguments: Namespace) -> Transcript:
    key, session_id = await transcripts.find(client, arguments.name, arguments.agent)
    return await transcripts.read(client, key, session_id)


async def _delete(client: GatewayClient, arguments: Namespace) -> None:
    await _end(client, arguments, "sessions.delete", "deleted")


async def _reset(client: GatewayClient, arguments: Namespace) -> None:
    await _end(client, arguments, "sessions.reset", "reset")


async def _end(client: GatewayClient, arguments: Namespace, method: str, outcome: str) -> None:
    """Deletes or resets a conversation, and prints the command that undoes it."""
    key, archived = await transcripts.find(client, arguments.name, arguments.agent)
    if archived is not None:
        raise ClientError(
            f"Conversation {arguments.name!r} is archived already.",
            f"Restore it: skerry sessions restore {archived}",
        )
    before = (await client.request("sessions.describe", {"key": key}))["session"]
    payload = await client.request(method, {"key": key})
    if arguments.json:
        show_json(payload | {"restore": before["sessionId"] if before else None})
        return
    show(f"{key} was {outcome}.")
    if before is not None and before["systemSent"]:
        notice(f"Undo it: skerry sessions restore {before['sessionId']}")


async def _restore(client: GatewayClient, arguments: Namespace) -> None:
    row = await transcripts.find_archived(client, arguments.name, arguments.agent)
    payload = await client.request("sessions.restore", {"sessionId": row["sessionId"]})
    if arguments.json:
        show_json(payload)
        return
    show(f"{payload['key']} was restored.")
    if displaced := payload.get("displaced"):
        notice(
            f"The replaced session was archived. Restore it: skerry sessions restore {displaced}"
        )


async def _rename(client: GatewayClient, arguments: Namespace) -> None:
    key, _ = await transcripts.find(client, arguments.name, arguments.agent)
    payload = await client.request("sessions.patch", {"key": key, "label": arguments.label})
    if arguments.json:
        show_json(payload)
    else:
        show(f"{key} was named {one_line(arguments.label) or 'after its first message again'}.")


async def _taint(client: GatewayClient, arguments: Namespace) -> None:
    key, _ = await transcripts.find(client, arguments.name, arguments.agent)
    state = await client.request("sessions.taint", {"key": key})
    if arguments.clear:
        params = {"key": key, "through": state["through"]}
        state = await client.request("sessions.taint.clear", params)
    if arguments.json:
        show_json(state)
        return
    if not state["tainted"]:
        cleared = "The text from others so far no longer taints"
        show(f"{cleared if arguments.clear else 'No text from others in'} {key}.")
        return
    lines = [("WHEN", "ORIGIN", "FROM")]
    for source in state["sources"]:
        when = datetime.fromtimestamp(source["at"] / 1000, UTC).astimezone()
        call = f"{source['tool'] or 'message'} {source['call'] or ''}"
        lines.append((f"{when:%Y-%m-%d %H:%M}", source["origin"], one_line(call)))
    show(table(lines))
    notice(f"Trust the messages so far: skerry sessions taint {arguments.name} --clear")


async def _search(client: GatewayClient, arguments: Namespace) -> None:
    params: dict[str, Any] = {"query": arguments.text, "limit": arguments.limit}
    if arguments.agent:
        params["agentId"] = arguments.agent
    if arguments.session:
        params["key"], _ = await transcripts.find(client, arguments.session, arguments.agent)
    answer = await client.request("sessions.search", params)
    if arguments.json:
        show_json(answer)
        return
    for hit in answer["hits"]:
        for line in _hit_lines(hit):
            show(line)
    if not answer["hits"]:
        show("No message has these words. Try other words.")
    if not answer["complete"]:
        notice("The index is not complete yet; search again in a moment.")


def _hit_lines(hit: dict[str, Any]) -> Iterator[str]:
    """Yields the lines of a hit: its session, and the messages around it."""
    archived = ", earlier session" if hit["archived"] else ""
    when = datetime.fromtimestamp(hit["at"] / 1000, UTC).astimezone()
    yield f"{when:%Y-%m-%d %H:%M}  {hit['key']}{archived}  {hit['sessionId']}"
    for message in (hit["before"], hit, hit["after"]):
        if message and message["text"]:
            yield f"  {message['role']}: {one_line(message['text'])}"


async def _prune(client: GatewayClient, arguments: Namespace) -> None:
    payload = await client.request("sessions.prune", {"dryRun": arguments.dry_run})
    if arguments.json:
        show_json(payload)
        return
    lines = [
        (outcome, row["key"], row["sessionId"], row["why"])
        for outcome in ("archived", "removed")
        for row in payload[outcome]
    ]
    if not lines:
        show("No session is beyond the limits of session.maintenance.")
        return
    show(table([("WHAT", "KEY", "SESSION", "WHY"), *lines]))
    if arguments.dry_run:
        notice("Nothing was changed. Run without --dry-run to apply the plan; removal is final.")
    else:
        notice("List restorable sessions: skerry sessions list --archived")


async def _mirror(arguments: Namespace) -> int:
    config = load(os.environ, fetch=False).config
    async with open_state(config) as (store, mirror):
        count = await mirror.rebuild(store)
    if arguments.json:
        show_json({"transcripts": count, "folder": str(mirror.agents_dir)})
    else:
        show(f"{count} transcripts rewritten below {mirror.agents_dir}")
    return 0


_ACTIONS: Final = MappingProxyType[str, Callable[[GatewayClient, Namespace], Awaitable[None]]](
    {
        "list": _list,
        "show": _show,
        "export": _export,
        "delete": _delete,
        "reset": _reset,
        "restore": _restore,
        "rename": _rename,
        "taint": _taint,
        "prune": _prune,
        "search": _search,
    }
)
