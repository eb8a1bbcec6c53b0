"""When people see that we write."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.replies.style import TypingMode
from skerry.runtime import typing_indicator
from skerry.runtime.typing_indicator import TypingIndicator

TO = ReplyTo(ChannelId("memory"), AccountId("default"), Peer(PeerKind.DIRECT, "alice"), "m1")


class Screen:
    """Counts how often the indicator is shown."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.show_count = 0
        self.was_shown = anyio.Event()

    async def show(self, to: ReplyTo) -> None:
        assert to == TO
        self.show_count += 1
        if self.failures:
            raise self.failures.pop()
        self.was_shown.set()


@asynccontextmanager
async def composed(screen: Screen, mode: TypingMode) -> AsyncGenerator[TypingIndicator]:
    indicator = TypingIndicator(screen.show, TO, mode, 0.001)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(indicator.run)
            await anyio.lowlevel.checkpoint()
            yield indicator
            tasks.cancel_scope.cancel()


async def test_it_is_shown_at_once_and_again_and_again() -> None:
    screen = Screen(OSError("gone"))
    async with composed(screen, TypingMode.INSTANT):
        await screen.was_shown.wait()
    assert screen.show_count >= 2


@pytest.mark.parametrize("mode", [TypingMode.THINKING, TypingMode.MESSAGE])
async def test_words_show_it(mode: TypingMode) -> None:
    screen = Screen()
    async with composed(screen, mode) as indicator:
        assert screen.show_count == 0
        indicator.speaks()
        await screen.was_shown.wait()


async def test_thoughts_show_it_where_that_is_wanted() -> None:
    screen, second = Screen(), Screen()
    async with (
        composed(screen, TypingMode.THINKING) as indicator,
        composed(second, TypingMode.MESSAGE) as two,
    ):
        indicator.thinks()
        two.thinks()
        await screen.was_shown.wait()
    assert second.show_count == 0


async def test_it_ends_after_a_while_whatever_the_run_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(typing_indicator, "MAX_SECONDS", 0.01)
    screen = Screen()
    with anyio.fail_after(60):
        indicator = TypingIndicator(screen.show, TO, TypingMode.INSTANT, 0.001)
        await indicator.run()
    assert screen.show_count
