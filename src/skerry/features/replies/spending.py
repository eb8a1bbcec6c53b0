"""`/usage cost`: the usage of this conversation, of today and of the last 30 days."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from skerry.commands.table import CommandCall, CommandError
from skerry.config.root import Config
from skerry.infra.clock import Clock, SystemClock, day
from skerry.store import Reader, Store, usage
from skerry.store.usage import Sums, UsageGroup


@dataclass(frozen=True, slots=True)
class Spending:
    """Reports the usage."""

    store: Store
    config: Callable[[], Config]
    clock: Clock = field(default_factory=SystemClock)

    async def report(self, call: CommandCall) -> str:
        """Describes the usage. Guests receive only that of this conversation."""
        today = day(self.clock.now_ms(), self.config().agents.defaults.user_timezone)
        first, last = str(today - timedelta(days=29)), str(today)

        def read(reader: Reader) -> tuple[Sums, Sums, Sums, Sums]:
            conversation = usage.of_sessions(reader, first, last, 1000, str(call.key))
            purposes = usage.grouped(reader, UsageGroup.PURPOSE, first, last)
            days = usage.daily(reader, last, last)
            background = [sums for name, sums in purposes.items() if name != "message"]
            return (
                usage.total(conversation.values()),
                usage.total(days.values()),
                usage.total(purposes.values()),
                usage.total(background),
            )

        conversation, now, month, background = await self.store.read(read)
        if not conversation.calls and not call.is_owner:
            raise CommandError("No model was called in this conversation in the last 30 days.")
        lines = [f"This conversation, 30 days: {described(conversation)}"]
        if call.is_owner:
            lines += [f"Today, all: {described(now)}", f"30 days, all: {described(month)}"]
            if background.calls:
                lines.append(f"Of this in the background: {described(background)}")
        return "\n\n".join(lines)


def described(sums: Sums) -> str:
    """Describes sums; unknown parts are named, not counted as zero."""
    if not sums.calls:
        return "nothing"
    cost = f"${sums.cost:.4f}"
    if sums.unpriced:
        cost = f"{cost} and {sums.unpriced} calls without a known price"
        if not sums.cost:
            cost = "price unknown"
    calls = "1 call" if sums.calls == 1 else f"{sums.calls:,} calls"
    read = f" ({sums.cache_read:,} from the cache)" if sums.cache_read else ""
    tokens_in = sums.input + sums.cache_read + sums.cache_write
    broken = f", {sums.uncounted} not counted by the provider" if sums.uncounted else ""
    return f"{cost}; {tokens_in:,} tokens in{read}, {sums.output:,} out; {calls}{broken}"
