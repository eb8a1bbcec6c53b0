"""Counts the usage of runs and days, and ends a run at a limit before its next call.

A limit is a normal end: the run keeps its messages, and a notice names the setting. The sums of the
day are those of the ledger, in memory; tool calls are counted here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.config.limits import DayLimits, RunLimits
from skerry.config.root import Config
from skerry.model.event import LoopEvent, MessageUpdate
from skerry.model.message import AssistantMessage, Message, TextBlock, ToolCall, ToolResultMessage
from skerry.model.run import RunRequest
from skerry.store import Store, usage
from skerry.store.usage import Sums

_WARN_AT: Final = 0.8


class UsageCounts(Struct):
    """Usage for each limit; the fields are named as in the configuration."""

    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def add(self, sums: Sums) -> None:
        """Adds the usage of model calls."""
        self.model_calls += sums.calls
        self.tokens += sums.tokens
        self.cost += sums.cost


_KEYS: Final = {
    "model_calls": ("modelCalls", "model calls"),
    "tool_calls": ("toolCalls", "tool calls"),
    "tokens": ("tokens", "tokens"),
    "cost": ("cost", "US dollars"),
}


class Meter:
    """The counts of one gateway."""

    def __init__(
        self,
        store: Store,
        config: Callable[[], Config],
        today: Callable[[], tuple[str, Mapping[str, Sums]]],
    ) -> None:
        """Makes the meter.

        Args:
            store: Keeps the tool calls of each day.
            config: Returns the present configuration: a lowered limit ends runs at once.
            today: Returns the present day, and the usage of each agent's model calls on it.

        """
        self._store = store
        self._config = config
        self._today = today
        self._runs: dict[str, UsageCounts] = {}
        self._tools: dict[tuple[str, str], int] = {}

    async def open(self) -> None:
        """Reads the numbers of today's tool calls."""
        day, _ = self._today()
        calls_by_agent = await self._store.read(lambda reader: usage.tools_of_day(reader, day))
        self._tools = {(day, agent): calls for agent, calls in calls_by_agent.items()}

    def begin(self, run_id: str, earlier: Iterable[Message] = ()) -> None:
        """Begins to count a run; `earlier` has its messages from before a restart."""
        self._runs[run_id] = used = UsageCounts()
        for message in earlier:
            if isinstance(message, AssistantMessage):
                used.model_calls += 1
                used.tokens += message.usage.total_tokens
                used.cost += message.usage.cost.total
            used.tool_calls += isinstance(message, ToolResultMessage)

    def end(self, run_id: str) -> None:
        """Forgets a run that ended."""
        self._runs.pop(run_id, None)

    def called(self, run_id: str, sums: Sums) -> None:
        """Counts a model call."""
        if (used := self._runs.get(run_id)) is not None:
            used.add(sums)

    def tool(self, request: RunRequest) -> None:
        """Counts a tool call."""
        agent, key, (day, _) = request.key.agent, str(request.key), self._today()
        if (used := self._runs.get(request.run_id)) is not None:
            used.tool_calls += 1
        if (day, agent) not in self._tools:
            self._tools = {key: calls for key, calls in self._tools.items() if key[0] == day}
        self._tools[day, agent] = self._tools.get((day, agent), 0) + 1
        self._store.ride(lambda unit: usage.count_tool(unit, day, agent, key))

    def reached(self, request: RunRequest) -> str:
        """Returns the notice about a limit that ends the run; empty if none does."""
        for scope, used, limits in self._standings(request):
            for name in _KEYS:
                limit = getattr(limits, name)
                if limit and name != "tool_calls" and getattr(used, name) >= limit:
                    return self._notice(request, scope, name, limit)
        return ""

    def admitted(
        self, request: RunRequest, response: AssistantMessage
    ) -> tuple[AssistantMessage, str]:
        """Returns the response with the permitted tool calls, and a notice if some are removed."""
        requested = len(response.tool_calls)
        for scope, used, limits in self._standings(request) if requested else ():
            remaining = max(0, limits.tool_calls - used.tool_calls)
            if limits.tool_calls and requested > remaining:
                notice = self._notice(request, scope, "tool_calls", limits.tool_calls)
                return _cut(response, remaining), notice
        return response, ""

    def report(self) -> list[dict[str, Any]]:
        """Returns today's usage of each agent with any, beside its limits."""
        day, sums = self._today()
        agents = {*sums, *(agent for of, agent in self._tools if of == day)}
        return [self._reported(agent) for agent in sorted(agents)]

    def _reported(self, agent: str) -> dict[str, Any]:
        used, limits = self._day(agent), self._config().limits(agent).day
        shares = {
            name: getattr(used, name) / limit for name in _KEYS if (limit := getattr(limits, name))
        }
        share = max(shares.values(), default=0.0)
        state = "ok" if share < _WARN_AT else "warned" if share < 1 else "stopped"
        parts = []
        for name in shares:
            limit = _amount(name, getattr(limits, name), unit=True)
            parts.append(f"{_amount(name, getattr(used, name))} of {limit}")
        text = ", ".join(parts)
        return {
            "budget": f"limits of {agent} today",
            "state": state,
            "message": text or "no limit is set",
            "share": round(share, 4),
            "cost": used.cost,
            "costLimit": limits.cost or None,
            "tokens": used.tokens,
            "tokenLimit": limits.tokens or None,
            "notIncluded": 0,
        }

    def summary(self, agent: str) -> str:
        """Returns today's usage of the agent's limits, and the limits of one run."""
        report = self._reported(agent)
        run = self._config().limits(agent).run
        each = [_amount(name, limit, unit=True) for name in _KEYS if (limit := getattr(run, name))]
        text = f"today {report['message']}"
        return f"{text}; a run at most {', '.join(each)}" if each else text

    def _day(self, agent: str) -> UsageCounts:
        day, sums = self._today()
        used = UsageCounts(tool_calls=self._tools.get((day, agent), 0))
        used.add(sums.get(agent, Sums()))
        return used

    def _standings(
        self, request: RunRequest
    ) -> Iterator[tuple[str, UsageCounts, RunLimits | DayLimits]]:
        limits = self._config().limits(request.key.agent)
        yield "run", self._runs.get(request.run_id) or UsageCounts(), limits.run
        yield "day", self._day(request.key.agent), limits.day

    def _notice(self, request: RunRequest, scope: str, name: str, limit: float) -> str:
        key, reached = _KEYS[name][0], _amount(name, limit, unit=True)
        agent = request.key.agent
        path = self._config().agents.limits_path(agent, scope, name)
        subject = "this run" if scope == "run" else f"the agent {agent} today"
        then = "Send a message to go on." if scope == "run" else "It goes on at midnight."
        return (
            f"⏸ I stopped here: {subject} reached the limit of {reached}. {then}"
            f" To allow more: skerry config set {path}.{scope}.{key} {limit * 2}."
        )


def _amount(name: str, value: float, *, unit: bool = False) -> str:
    """Returns a count for people: dollars with cents, other values as whole numbers."""
    amount = f"{value:,.{2 if name == 'cost' else 0}f}"
    return f"{amount} {_KEYS[name][1]}" if unit else amount


class RunMeter:
    """The limits of one run."""

    def __init__(
        self,
        meter: Meter,
        request: RunRequest,
        emit: Callable[[LoopEvent], None],
        earlier: Iterable[Message] = (),
    ) -> None:
        self._meter = meter
        self._request = request
        self._emit = emit
        self.notice = ""
        """Notice for the person; empty while no limit was reached."""
        meter.begin(request.run_id, earlier)

    def end(self) -> None:
        """Ends the counting of the run."""
        self._meter.end(self._request.run_id)

    def tool(self) -> None:
        """Counts a tool call."""
        self._meter.tool(self._request)

    def stops(self) -> str:
        """Sends the notice if a limit is reached, and returns it; empty if none is."""
        if self.reached():
            self._emit(MessageUpdate(self.notice))
        return self.notice

    def reached(self) -> bool:
        """Returns whether a limit forbids another model call."""
        if not self.notice:
            self.notice = self._meter.reached(self._request)
        return bool(self.notice)

    def admitted(self, response: AssistantMessage) -> AssistantMessage:
        """Returns the response with the permitted tool calls; adds the notice if none remains."""
        response, self.notice = self._meter.admitted(self._request, response)
        if not self.notice or response.tool_calls:
            return response
        notice = f"\n\n{self.notice}" if response.text else self.notice
        self._emit(MessageUpdate(notice))
        content = (*response.content, TextBlock(notice))
        return replace(response, content=content, stop_reason="stop")


def _cut(response: AssistantMessage, remaining: int) -> AssistantMessage:
    """Returns the response with only its first `remaining` tool calls."""
    allowed = {call.id for call in response.tool_calls[:remaining]}
    content = [
        block
        for block in response.content
        if not isinstance(block, ToolCall) or block.id in allowed
    ]
    return replace(response, content=tuple(content))
