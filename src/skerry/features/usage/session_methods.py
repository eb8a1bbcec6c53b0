"""Methods for the usage of conversations: `sessions.usage`, `.timeseries` and `.logs`.

Calls, tokens and costs are read from the ledger; messages and tools are counted in the transcripts
of the listed sessions.
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Annotated, ClassVar, Final, Literal

from msgspec import Struct
from pydantic import Field

from skerry.features.usage.methods import MAX_DAYS, RangeParams, days_of, sums_json
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.infra.clock import begin
from skerry.model.message import AssistantMessage, ToolResultMessage
from skerry.model.session import SessionEntry, TranscriptEntry
from skerry.store import Reader, session_usage, sessions, usage
from skerry.store.message_counts import MessageCounts
from skerry.store.session_usage import SessionUsage
from skerry.store.usage import Sums, UsageGroup

_MAX_SESSIONS: Final = 1000
_MAX_POINTS: Final = 200
_MAX_DETAILS: Final = 20_000
"""Maximum number of days and models of sessions, about three megabytes."""
_MAX_TEXT: Final = 2000
_RANGES: Final[Mapping[str, int]] = {"7d": 7, "30d": 30, "90d": 90, "1y": 365, "all": MAX_DAYS}


class SessionsUsageParams(RangeParams):
    """Parameters of `sessions.usage`: a range of days, and a session.

    `family` joins all sessions of a conversation in one row.
    """

    ignored: ClassVar = {
        **RangeParams.ignored,
        "includeContextWeight": "`prompt.show` reports the parts of the prompt.",
        "creatorKey": "Every conversation belongs to the one owner.",
    }

    key: Name | None = None
    limit: Annotated[int, Field(ge=1, le=_MAX_SESSIONS)] = 50
    range: Literal["7d", "30d", "90d", "1y", "all"] | None = None
    group_by: Literal["instance", "family"] | None = None
    include_historical: bool = False


class OneSessionParams(Params):
    """Parameters of `sessions.usage.timeseries`: a conversation, by its key or a session's id."""

    key: Name
    agent_id: Name | None = None


class LogsParams(OneSessionParams):
    """Parameters of `sessions.usage.logs`: the last messages of a conversation."""

    limit: Annotated[int, Field(ge=1, le=1 << 40)] = 200


class _Row(Struct):
    """A session of the list, or a conversation with all its sessions."""

    name: str
    session: SessionEntry | None
    sums: Sums
    session_usage: SessionUsage | None
    """None when there are too many sessions for more than sums."""
    ids: list[str]


async def sessions_usage(call: Call, params: SessionsUsageParams) -> Json:
    """Returns the usage of sessions, most expensive first, and the sum of these days."""
    days = _days(call, params)
    first, last = (days[0], days[-1]) if days else ("", "")
    agent, zone = params.agent_id, call.context.config().agents.defaults.user_timezone
    groups = (UsageGroup.DAY, UsageGroup.MODEL, UsageGroup.AGENT, UsageGroup.CHANNEL)

    def begin_of(day: str) -> int:
        return begin(date.fromisoformat(day), zone)

    def read(reader: Reader) -> Json:
        by_session = usage.of_sessions(reader, first, last, params.limit, params.key, agent)
        ids = [id_ for id_ in by_session if id_]
        details = session_usage.of(reader, ids, days, begin_of, _MAX_DETAILS)
        entries = {id_: sessions.get(reader, id_) for id_ in ids}
        rows = [_Row(id_, entries[id_], by_session[id_], details.get(id_), [id_]) for id_ in ids]
        if params.include_historical or params.group_by == "family":
            rows = _families(rows)
        sums = {by: usage.grouped(reader, by, first, last, agent) for by in groups}
        models = usage.by_day_and_model(reader, first, last, agent)
        whole = SessionUsage()
        for row in details.values():
            whole.add(row)
        short = len(ids) - len(details)
        return {
            **({"warnings": [_shortened(short)]} if short else {}),
            "sessions": [_session(row) for row in rows],
            "totals": sums_json(usage.total(sums[UsageGroup.DAY].values())),
            "aggregates": {
                **_aggregates(sums, models),
                **_message_totals(whole, sums[UsageGroup.DAY]),
            },
        }

    answer = await call.context.store.scan(read)
    now = call.context.clock.now_ms()
    return {"updatedAt": now, "startDate": first, "endDate": last, **answer}


async def usage_timeseries(call: Call, params: OneSessionParams) -> Json:
    """Returns the calls of a session in order of time, as at most 200 points."""
    session_id = await _named(call, params)
    series = await call.context.store.read(
        lambda reader: session_usage.series(reader, session_id, _MAX_POINTS)
    )
    points: list[Json] = []
    tokens, cost = 0, 0.0
    for at, sums in series:
        tokens, cost = tokens + sums.tokens, cost + sums.cost
        points.append(
            {
                "timestamp": at,
                "input": sums.input,
                "output": sums.output,
                "cacheRead": sums.cache_read,
                "cacheWrite": sums.cache_write,
                "totalTokens": sums.tokens,
                "cost": sums.cost,
                "cumulativeTokens": tokens,
                "cumulativeCost": cost,
            }
        )
    return {"sessionId": session_id, "points": points}


async def usage_logs(call: Call, params: LogsParams) -> Json:
    """Returns the last messages of a session, with their usage; oldest first."""
    session_id = await _named(call, params)
    limit = min(params.limit, _MAX_SESSIONS)
    entries = await call.context.store.read(
        lambda reader: sessions.entries(reader, session_id, limit=limit)
    )
    messages = (entry for entry in entries if not sessions.is_compaction(entry.message))
    return {
        "sessionId": session_id,
        "logs": [entry_json for entry in messages if (entry_json := _log(entry))],
    }


async def _named(call: Call, params: OneSessionParams) -> str:
    key = call.session_key(params.key, params.agent_id)
    ids = await call.context.store.read(
        lambda reader: session_usage.named(reader, str(key), key.agent)
    )
    if ids is None:
        message = f"No transcript found for session: {params.key}"
        raise RefusedError(message)
    return ids


def _log(entry: TranscriptEntry) -> Json:
    message, about = entry.message, {}
    parts = [sessions.text_of(message)]
    match message:
        case ToolResultMessage():
            role = "toolResult"
            parts.insert(0, f"[Tool: {message.tool_name}]\n[Tool Result]")
        case AssistantMessage():
            role = "assistant"
            parts += [f"[Tool: {tool_call.name}]" for tool_call in message.tool_calls]
            about = {"tokens": message.usage.total_tokens, "cost": message.usage.cost.total}
        case _:
            role = "user"
    text = "\n".join(part for part in parts if part)
    if not text:
        return None
    cut = text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"
    return {"timestamp": entry.at, "role": role, "content": cut, **about}


def _days(call: Call, params: SessionsUsageParams) -> list[str]:
    days = days_of(call, params)
    if params.range is None or not days or params.start_date is not None:
        return days
    last = date.fromisoformat(days[-1])
    return [str(last - timedelta(days=back)) for back in range(_RANGES[params.range])][::-1]


def _shortened(count: int) -> Json:
    text = f"{count} sessions have only their sums. Request fewer days, or one session by `key`."
    return {"path": "limit", "message": text}


def _families(rows: Sequence[_Row]) -> list[_Row]:
    """Returns one row for all sessions of a conversation."""
    families: dict[str, _Row] = {}
    for row in rows:
        key = row.session.key if row.session else row.name
        whole = families.setdefault(
            key, _Row(row.name, None, Sums(), row.session_usage and SessionUsage(), [])
        )
        whole.sums = whole.sums.plus(row.sums)
        if row.session_usage is not None and whole.session_usage is not None:
            whole.session_usage.add(row.session_usage)
        whole.ids += row.ids
        if row.session is not None and (whole.session is None or row.session.archived is None):
            whole.session, whole.name = row.session, row.name
    return list(families.values())


def _session(row: _Row) -> Json:
    about: dict[str, Json] = {"key": row.name}
    session, is_family = row.session, len(row.ids) > 1
    if session is not None:
        # A page would merge two rows with one key, so an archived session uses its id.
        is_present = session.archived is None or is_family
        about = {
            "key": session.key if is_present else f"agent:{session.agent_id}:{session.session_id}",
            "label": session.label or None,
            "agentId": session.agent_id,
            "chatType": session.chat_type,
            "updatedAt": session.updated_at,
            "modelProvider": session.provider,
            "model": session.model,
        }
    if is_family:
        about |= {"includedSessionIds": row.ids, "historicalInstanceCount": len(row.ids)}
    return {
        "sessionId": row.name,
        "scope": "family" if is_family else "instance",
        **about,
        "usage": {
            "sessionId": row.name,
            **sums_json(row.sums),
            **(_details(row.session_usage) if row.session_usage else {}),
        },
    }


def _details(details: SessionUsage) -> dict[str, Json]:
    """Returns the details of a session besides its sums, for pages."""
    by_day: dict[str, Sums] = {}
    by_model: dict[tuple[str, str], Sums] = {}
    for (on, provider, model), sums in details.calls.items():
        by_day[on] = by_day.get(on, Sums()).plus(sums)
        by_model[provider, model] = by_model.get((provider, model), Sums()).plus(sums)
    whole = _message_sums(details)
    return {
        "firstActivity": details.first or None,
        "lastActivity": details.last or None,
        "durationMs": details.last - details.first,
        "activityDates": sorted({*by_day, *details.messages}),
        "dailyBreakdown": [
            {"date": on, "tokens": sums.tokens, "cost": sums.cost}
            for on, sums in sorted(by_day.items())
        ],
        "dailyMessageCounts": [
            {"date": on, **_counts(counts)} for on, counts in sorted(details.messages.items())
        ],
        "dailyModelUsage": _model_days(details.calls),
        "messageCounts": _counts(whole),
        "toolUsage": _tools(details),
        "modelUsage": [
            {"provider": provider, "model": model, "count": sums.calls, "totals": sums_json(sums)}
            for (provider, model), sums in by_model.items()
        ],
        **_latencies(details),
    }


def _aggregates(
    sums: Mapping[UsageGroup, Mapping[str, Sums]], models: Mapping[tuple[str, str, str], Sums]
) -> dict[str, Json]:
    """Returns the sums of all calls of the days, by common properties."""
    providers: dict[str, Sums] = {}
    for ref, totals in sums[UsageGroup.MODEL].items():
        provider = ref.partition("/")[0]
        providers[provider] = providers.get(provider, Sums()).plus(totals)
    return {
        "byModel": [
            {"provider": ref.partition("/")[0], "model": ref.partition("/")[2], **_entry(totals)}
            for ref, totals in sums[UsageGroup.MODEL].items()
        ],
        "byProvider": [{"provider": name, **_entry(totals)} for name, totals in providers.items()],
        "byAgent": [
            {"agentId": name, **_entry(totals)} for name, totals in sums[UsageGroup.AGENT].items()
        ],
        "byChannel": [
            {"channel": name, **_entry(totals)} for name, totals in sums[UsageGroup.CHANNEL].items()
        ],
        "modelDaily": _model_days(models),
    }


def _message_totals(whole: SessionUsage, by_day: Mapping[str, Sums]) -> dict[str, Json]:
    """Returns the messages and tools of the listed sessions, in total and for each day."""
    days = sorted({*by_day, *whole.messages})
    daily: list[Json] = []
    for on in days:
        sums, day_counts = by_day.get(on, Sums()), whole.messages.get(on, MessageCounts())
        daily.append(
            {
                "date": on,
                "tokens": sums.tokens,
                "cost": sums.cost,
                "messages": day_counts.total,
                "toolCalls": day_counts.tool_calls,
                "errors": sums.failed,
            }
        )
    counts = _counts(_message_sums(whole))
    return {"messages": counts, "tools": _tools(whole), "daily": daily, **_latencies(whole)}


def _message_sums(details: SessionUsage) -> MessageCounts:
    whole = MessageCounts()
    for counts in details.messages.values():
        whole = whole.plus(counts)
    return whole


def _counts(counts: MessageCounts) -> dict[str, Json]:
    return {
        "total": counts.total,
        "user": counts.user,
        "assistant": counts.assistant,
        "toolCalls": counts.tool_calls,
        "toolResults": counts.tool_results,
        "errors": counts.errors,
    }


def _tools(details: SessionUsage) -> dict[str, Json]:
    ranked = sorted(details.tools.items(), key=lambda named: (-named[1], named[0]))
    return {
        "totalCalls": sum(details.tools.values()),
        "uniqueTools": len(details.tools),
        "tools": [{"name": name, "count": count} for name, count in ranked],
    }


def _model_days(calls: Mapping[tuple[str, str, str], Sums]) -> list[Json]:
    return [
        {
            "date": on,
            "provider": provider,
            "model": model,
            "tokens": sums.tokens,
            "cost": sums.cost,
            "count": sums.calls,
        }
        for (on, provider, model), sums in sorted(calls.items())
    ]


def _latencies(details: SessionUsage) -> dict[str, Json]:
    """Returns the response times of models; empty without responses."""
    if not details.seconds:
        return {}
    return {
        "latency": _latency([seconds for some in details.seconds.values() for seconds in some]),
        "dailyLatency": [
            {"date": on, **_latency(some)} for on, some in sorted(details.seconds.items())
        ],
    }


def _latency(seconds: Sequence[float]) -> dict[str, Json]:
    took = sorted(1000 * second for second in seconds)
    return {
        "count": len(took),
        "avgMs": sum(took) / len(took),
        "minMs": took[0],
        "maxMs": took[-1],
        "p95Ms": took[max(0, -(-len(took) * 95 // 100) - 1)],
    }


def _entry(sums: Sums) -> dict[str, Json]:
    return {"count": sums.calls, "totals": sums_json(sums)}


METHODS: Final = (
    Method("sessions.usage", SessionsUsageParams, sessions_usage),
    Method("sessions.usage.timeseries", OneSessionParams, usage_timeseries),
    Method("sessions.usage.logs", LogsParams, usage_logs),
)
