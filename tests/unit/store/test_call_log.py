"""The log of model calls beside the database."""

from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from skerry.model.message import Usage
from skerry.store import DATABASE, Unit, open_store, usage
from skerry.store.call_log import BOOKED_MS, FILE, MAX_BYTES, OLDER, CallLog
from skerry.store.usage import BookedCall, CallOutcome

DAY = 86_400_000


def began(log: CallLog, at: int = 1_000) -> BookedCall:
    return BookedCall(
        at=at,
        day="1970-01-01",
        run_id="r",
        session_id="s",
        agent="main",
        channel="webchat",
        purpose="message",
        provider="acme",
        model="large",
        profile="",
        usage=Usage(),
        priced=False,
        outcome=CallOutcome.LOST,
        counted=False,
        seconds=0.0,
        call_id=log.new_id(),
    )


def ended(call: BookedCall, tokens: int = 7) -> BookedCall:
    return replace(call, usage=Usage(input=tokens), outcome=CallOutcome.OK, counted=True)


def test_a_call_reads_as_its_last_line_says(tmp_path: Path) -> None:
    log = CallLog(tmp_path)
    first, second = began(log), began(log)
    log.begin(first)
    log.begin(second)
    log.end(ended(second))
    assert list(CallLog(tmp_path).read().values()) == [first, ended(second)]
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cut", range(1, 40, 7))
def test_a_torn_line_costs_no_other(tmp_path: Path, cut: int) -> None:
    log = CallLog(tmp_path)
    first, second = began(log), began(log)
    log.begin(first)
    log.begin(second)
    log.close()
    text = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(text[:-cut] if cut > 1 else text + b"{")
    remaining = CallLog(tmp_path).read()
    assert remaining[first.call_id] == first
    assert (second.call_id in remaining) is (cut == 1)


def test_the_files_stay_small_and_keep_the_calls_that_are_open(tmp_path: Path) -> None:
    log = CallLog(tmp_path)
    hanging = began(log)
    log.begin(hanging)
    call = hanging
    for _ in range(4 * MAX_BYTES // 300):
        call = began(log)
        log.begin(call)
        log.end(ended(call))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * MAX_BYTES + 2_000
    assert {path.name for path in tmp_path.iterdir()} == {FILE, OLDER}
    remaining = CallLog(tmp_path).read()
    assert remaining[hanging.call_id] == hanging
    assert remaining[call.call_id] == ended(call)


def test_what_retention_may_have_removed_is_not_booked_again(tmp_path: Path) -> None:
    log = CallLog(tmp_path)
    old, new = began(log), began(log, 2_000 + BOOKED_MS)
    log.end(ended(old))
    log.end(ended(new))
    assert list(log.read()) == [new.call_id]


def test_a_disk_that_takes_nothing_stops_no_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = CallLog(tmp_path / "missing")
    for _ in range(3):
        log.begin(began(log))
    assert len(caplog.records) == 1
    (tmp_path / "missing").mkdir()
    log.begin(call := began(log))
    assert list(log.read()) == [call.call_id]


async def test_the_ledger_lacks_what_it_has_no_row_of(tmp_path: Path) -> None:
    log = CallLog(tmp_path)
    calls = [ended(began(log), tokens) for tokens in range(1, 6)]
    for call in calls:
        log.end(call)
    async with open_store(tmp_path / DATABASE) as store:

        def book(unit: Unit) -> None:
            for call in calls[1:4]:
                usage.book(unit, call)

        await store.write(book)
        later_calls = [ended(began(log)) for _ in range(2 * len(calls) + 101)]
        for later_call in later_calls:
            await store.write(partial(usage.book, call=later_call))
        missing = await store.read(lambda reader: usage.unbooked(reader, log.read()))
    assert missing == [calls[0], calls[4]]
