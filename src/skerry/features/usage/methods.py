"""Methods for the total usage: `usage.cost`, `usage.report`, `usage.status`.

All read the ledger of model calls. Days are those of the person's time zone.
"""

from datetime import date, timedelta
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, NoParams, Params
from skerry.infra.clock import day, host_zone
from skerry.store import usage
from skerry.store.usage import Sums, UsageGroup

MAX_DAYS: Final = 366


def _is_day(text: str) -> str:
    date.fromisoformat(text)
    return text


Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$"), AfterValidator(_is_day)]


class RangeParams(Params):
    """Range of days: the last `days`, or from one date to another."""

    ignored: ClassVar = {
        **dict.fromkeys(
            ("mode", "utcOffset", "timeZone"),
            "Days are those of the configured time zone, `agents.defaults.userTimezone`.",
        ),
    }
    usual: ClassVar = {"mode": "gateway"}

    days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 30
    start_date: Day | None = None
    end_date: Day | None = None
    agent_id: Name | None = None
    agent_scope: Literal["all"] | None = None


class UsageCostParams(RangeParams):
    """Parameters of `usage.cost`: a range of days; of one agent or of all."""


class UsageReportParams(RangeParams):
    """Parameters of `usage.report`: a range of days, and the property for the sums."""

    by: UsageGroup = Field(default=UsageGroup.MODEL, strict=False)


def usage_status(call: Call, _params: NoParams) -> Json:
    """Returns the limits that providers report; no adapter reports any."""
    return {"updatedAt": call.context.clock.now_ms(), "providers": []}


async def usage_cost(call: Call, params: UsageCostParams) -> Json:
    """Returns the tokens of each day, and their cost where a price is known.

    `missingCostEntries` counts calls whose price or token count is unknown.
    """
    days = days_of(call, params)
    agent = params.agent_id
    used: dict[str, Sums] = {}
    if days:
        first, last = days[0], days[-1]
        used = await call.context.store.read(lambda reader: usage.daily(reader, first, last, agent))
    daily = [{"date": on, **sums_json(used.get(on, Sums()))} for on in days]
    return {
        "updatedAt": call.context.clock.now_ms(),
        "days": len(days),
        "daily": daily,
        "totals": sums_json(usage.total(used.values())),
    }


async def usage_report(call: Call, params: UsageReportParams) -> Json:
    """Returns the usage, grouped as requested, and the remaining budgets."""
    days = days_of(call, params)
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


def counted(sums: Sums) -> dict[str, Json]:
    """Returns sums with their number of calls, and the numbers of uncounted calls."""
    return {
        "calls": sums.calls,
        "failed": sums.failed,
        "uncounted": sums.uncounted,
        "unpriced": sums.unpriced,
        **sums_json(sums),
    }


def days_of(call: Call, params: RangeParams) -> list[str]:
    """Returns the requested days, in order."""
    zone = call.context.config().agents.defaults.user_timezone
    today = day(call.context.clock.now_ms(), zone)
    last = date.fromisoformat(params.end_date) if params.end_date else today
    first = last - timedelta(days=params.days - 1)
    if params.start_date:
        first = max(date.fromisoformat(params.start_date), last - timedelta(days=MAX_DAYS - 1))
    return [str(first + timedelta(days=number)) for number in range((last - first).days + 1)]


def sums_json(sums: Sums) -> dict[str, Json]:
    """Returns sums in the form of the protocol."""
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
)
