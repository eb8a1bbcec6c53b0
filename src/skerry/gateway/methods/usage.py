"""Methods about what was used: `usage.status` and `usage.cost`."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, NoParams, Params
from skerry.ports.model import ModelCost
from skerry.store import usage
from skerry.store.usage import DayUsage

_MOST_DAYS: Final = 366
_MILLION: Final = 1_000_000


def _is_day(text: str) -> str:
    date.fromisoformat(text)
    return text


Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$"), AfterValidator(_is_day)]


class UsageCostParams(Params):
    """Parameters of `usage.cost`: the last `days`, or both dates. Days are those of UTC.

    Those behind `end_date` are what clients send and nothing heeds yet.
    """

    days: Annotated[int, Field(ge=1, le=_MOST_DAYS)] = 30
    start_date: Day | None = None
    end_date: Day | None = None
    mode: Literal["utc", "gateway", "specific"] | None = None
    utc_offset: Name | None = None
    time_zone: Name | None = None
    agent_id: Name | None = None
    agent_scope: Literal["all"] | None = None


def usage_status(call: Call, _params: NoParams) -> Json:
    """Return what providers say of their limits; none of ours says anything."""
    return {"updatedAt": call.context.clock.now_ms(), "providers": []}


async def usage_cost(call: Call, params: UsageCostParams) -> Json:
    """Return the tokens of stored runs day by day, and what they cost where a price is known.

    `missingCostEntries` counts what a day used of models without a known price.
    """
    now = call.context.clock.now_ms()
    today = datetime.fromtimestamp(now / 1000, UTC).date()
    last = date.fromisoformat(params.end_date) if params.end_date else today
    first = last - timedelta(days=params.days - 1)
    if params.start_date:
        first = max(date.fromisoformat(params.start_date), last - timedelta(days=_MOST_DAYS - 1))
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    since, until = _midnight(first), _midnight(last + timedelta(days=1)) - 1
    used = await call.context.store.read(lambda reader: usage.daily(reader, since, until))
    listing = await call.context.models.listing()
    prices = {(model.provider, model.id): model.cost for model in listing}
    told = {day.isoformat(): _nothing() for day in days}
    totals = _nothing()
    for one in used:
        for sums in (told[one.day], totals):
            _add(sums, one, prices.get((one.provider, one.model), ModelCost()))
    daily = [{"date": day, **sums} for day, sums in told.items()]
    return {"updatedAt": now, "days": len(days), "daily": daily, "totals": totals}


def _midnight(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)


def _nothing() -> dict[str, float]:
    tokens = ("input", "output", "cacheRead", "cacheWrite", "totalTokens")
    costs = ("totalCost", "inputCost", "outputCost", "cacheReadCost", "cacheWriteCost")
    return dict.fromkeys((*tokens, *costs, "missingCostEntries"), 0)


def _add(sums: dict[str, float], used: DayUsage, price: ModelCost) -> None:
    parts = (
        ("input", used.input, price.input),
        ("output", used.output, price.output),
        ("cacheRead", used.cache_read, price.cache_read),
        ("cacheWrite", used.cache_write, price.cache_write),
    )
    for name, tokens, dollars in parts:
        cost = tokens * dollars / _MILLION
        sums[name] += tokens
        sums[f"{name}Cost"] += cost
        sums["totalTokens"] += tokens
        sums["totalCost"] += cost
    if price == ModelCost() and any(tokens for _, tokens, _ in parts):
        sums["missingCostEntries"] += 1


METHODS: Final = (
    Method("usage.status", NoParams, usage_status),
    Method("usage.cost", UsageCostParams, usage_cost),
)
