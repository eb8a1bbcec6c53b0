"""Methods about what was used: `usage.cost`, `usage.report`, `sessions.usage`, `usage.status`.

All are read from the ledger of model calls. Days are those of the person's time zone.
"""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, NoParams, Params
from skerry.infra.zone import day, host_zone
from skerry.model.session import SessionEntry
from skerry.store import Reader, sessions, usage
from skerry.store.usage import By, Sums

_MOST_DAYS: Final = 366
_MOST_SESSIONS: Final = 1000


def _is_day(text: str) -> str:
    date.fromisoformat(text)
    return text


Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$"), AfterValidator(_is_day)]


class _RangeParams(Params):
    """The last `days`, or both dates."""

    ignored: ClassVar = {
        **dict.fromkeys(
            ("mode", "utcOffset", "timeZone"),
            "Days are those of the configured time zone, `agents.defaults.userTimezone`.",
        ),
    }
    usual: ClassVar = {"mode": "gateway"}

    days: Annotated[int, Field(ge=1, le=_MOST_DAYS)] = 30
    start_date: Day | None = None
    end_date: Day | None = None
    agent_id: Name | None = None
    agent_scope: Literal["all"] | None = None


class UsageCostParams(_RangeParams):
    """Parameters of `usage.cost`: the last `days`, or both dates; of one agent or of all."""


class UsageReportParams(_RangeParams):
    """Parameters of `usage.report`: which days, and by what they are added up."""

    by: By = Field(default=By.MODEL, strict=False)


class SessionsUsageParams(_RangeParams):
    """Parameters of `sessions.usage`: which days, and which session.

    Those behind `limit` are what clients send and nothing heeds yet.
    """

    key: Name | None = None
    limit: Annotated[int, Field(ge=1, le=_MOST_SESSIONS)] = 50
    include_context_weight: bool | None = None
    range: Name | None = None
    group_by: Name | None = None


def usage_status(call: Call, _params: NoParams) -> Json:
    """Return what providers say of their limits; none of ours says anything."""
    return {"updatedAt": call.context.clock.now_ms(), "providers": []}


async def usage_cost(call: Call, params: UsageCostParams) -> Json:
    """Return the tokens of each day, and what they cost where a price is known.

    `missingCostEntries` counts calls whose price, or count of tokens, is not known.
    """
    days = _days(call, params)
    agent = params.agent_id
    used: dict[str, Sums] = {}
    if days:
        first, last = days[0], days[-1]
        used = await call.context.store.read(lambda reader: usage.daily(reader, first, last, agent))
    daily = [{"date": one, **_told(used.get(one, Sums()))} for one in days]
    return {
        "updatedAt": call.context.clock.now_ms(),
        "days": len(days),
        "daily": daily,
        "totals": _told(usage.total(used.values())),
    }


async def usage_report(call: Call, params: UsageReportParams) -> Json:
    """Return what was used, added up by what is asked, and what is left of the budgets."""
    days = _days(call, params)
    rows: dict[str, Sums] = {}
    if days:
        first, last = days[0], days[-1]
        rows = await call.context.store.read(
            lambda reader: usage.grouped(reader, params.by, first, last, params.agent_id)
        )
    config = call.context.config()
    return {
        "updatedAt": call.context.clock.now_ms(),
        "startDate": days[0] if days else None,
        "endDate": days[-1] if days else None,
        "timeZone": config.agents.defaults.user_timezone or host_zone(),
        "by": params.by,
        "rows": [{"name": name, **counted(sums)} for name, sums in rows.items()],
        "totals": counted(usage.total(rows.values())),
        "budgets": call.context.budgets(),
    }


async def sessions_usage(call: Call, params: SessionsUsageParams) -> Json:
    """Return what sessions used, the dearest first, and all calls of these days added up."""
    days = _days(call, params)
    first, last = (days[0], days[-1]) if days else ("", "")
    agent = params.agent_id

    def read(reader: Reader) -> tuple[Json, dict[By, dict[str, Sums]]]:
        found = usage.of_sessions(reader, first, last, params.limit, params.key)
        known = {one: sessions.get(reader, one) for one in found if one}
        listed = [_session(name, known.get(name), sums) for name, sums in found.items() if name]
        wanted = (By.DAY, By.MODEL, By.AGENT, By.CHANNEL)
        return listed, {by: usage.grouped(reader, by, first, last, agent) for by in wanted}

    listed, sums = await call.context.store.read(read)
    return {
        "updatedAt": call.context.clock.now_ms(),
        "startDate": first,
        "endDate": last,
        "sessions": listed,
        "totals": _told(usage.total(sums[By.DAY].values())),
        "aggregates": {
            "byModel": [
                {"provider": ref.partition("/")[0], "model": ref.partition("/")[2], **entry}
                for ref, entry in _entries(sums[By.MODEL])
            ],
            "byAgent": [{"agentId": name, **entry} for name, entry in _entries(sums[By.AGENT])],
            "byChannel": [{"channel": name, **entry} for name, entry in _entries(sums[By.CHANNEL])],
            "daily": [
                {"date": on, "tokens": one.tokens, "cost": one.cost, "errors": one.failed}
                for on, one in sums[By.DAY].items()
            ],
        },
    }


def counted(sums: Sums) -> dict[str, Json]:
    """Return sums with how many calls they are of, and what is not known of them."""
    return {
        "calls": sums.calls,
        "failed": sums.failed,
        "uncounted": sums.uncounted,
        "unpriced": sums.unpriced,
        **_told(sums),
    }


def _session(name: str, found: SessionEntry | None, sums: Sums) -> Json:
    known: dict[str, Json] = {}
    if found is not None:
        known = {
            "key": found.key,
            "label": found.label or None,
            "agentId": found.agent_id,
            "chatType": found.chat_type,
            "updatedAt": found.updated_at,
        }
    return {"key": name, "sessionId": name, **known, "usage": _told(sums)}


def _entries(sums: Mapping[str, Sums]) -> list[tuple[str, dict[str, Json]]]:
    return [(name, {"count": one.calls, "totals": _told(one)}) for name, one in sums.items()]


def _days(call: Call, params: _RangeParams) -> list[str]:
    zone = call.context.config().agents.defaults.user_timezone
    today = day(call.context.clock.now_ms(), zone)
    last = date.fromisoformat(params.end_date) if params.end_date else today
    first = last - timedelta(days=params.days - 1)
    if params.start_date:
        first = max(date.fromisoformat(params.start_date), last - timedelta(days=_MOST_DAYS - 1))
    return [str(first + timedelta(days=number)) for number in range((last - first).days + 1)]


def _told(sums: Sums) -> dict[str, Json]:
    """Return sums as the protocol has them."""
    return {
        "input": sums.input,
        "output": sums.output,
        "cacheRead": sums.cache_read,
        "cacheWrite": sums.cache_write,
        "totalTokens": sums.tokens,
        "totalCost": sums.cost,
        "inputCost": sums.input_cost,
        "outputCost": sums.output_cost,
        "cacheReadCost": sums.cache_read_cost,
        "cacheWriteCost": sums.cache_write_cost,
        "missingCostEntries": sums.unpriced + sums.uncounted,
    }


METHODS: Final = (
    Method("usage.status", NoParams, usage_status),
    Method("usage.cost", UsageCostParams, usage_cost),
    Method("usage.report", UsageReportParams, usage_report),
    Method("sessions.usage", SessionsUsageParams, sessions_usage),
)
