"""`skerry usage`, with a gateway and without, and `/usage cost`."""

import json
import os
from pathlib import Path

import anyio
import pytest

from skerry.cli.main import main
from skerry.commands.table import CommandTable
from skerry.config.root import Config
from skerry.features.models.book import book_trial
from skerry.features.replies.commands import reply_commands
from skerry.features.replies.spending import Spending
from skerry.features.retention.service import look
from skerry.features.usage.cli_run import price, uncounted_notes
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import SystemClock, day
from skerry.model.message import Usage
from skerry.ports.model import ModelCost, ModelInfo
from skerry.store import DATABASE, Store, Unit, open_store, usage
from skerry.testing.model import ScriptedModel
from tests.support.core import open_core
from tests.support.ledger import call


def today() -> str:
    return str(day(SystemClock().now_ms(), None))


async def filled(home: Path) -> None:
    async with open_store(home / DATABASE) as store:

        def write(unit: Unit) -> None:
            usage.book(unit, call(1000, day=today(), agent="main"))
            usage.book(unit, call(10, day=today(), agent="other", model="n", priced=False))

        await store.write(write)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(os.environ, "SKERRY_STATE_DIR", str(tmp_path))
    monkeypatch.setitem(os.environ, "SKERRY_GATEWAY_PORT", "1")
    return tmp_path


def test_without_a_gateway_the_database_is_read(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    anyio.run(filled, home)
    assert main(["usage"]) == 0
    out, err = capsys.readouterr()
    assert "p/m" in out
    assert "$100.0000" in out
    assert "unknown" in out
    assert "Calls without a known price, not in the cost: 1." in err
    assert "No gateway is running" in err
    assert main(["usage", "--by", "agent", "--agent", "other", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in report["rows"]] == ["other"]
    assert (report["running"], report["totals"]["unpriced"]) == (False, 1)


def test_an_empty_ledger_says_what_to_do(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del home
    assert main(["usage", "--days", "7"]) == 0
    assert "skerry chat" in capsys.readouterr().out


def test_a_database_of_an_older_version_says_what_to_do(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / DATABASE).touch()
    assert main(["usage"]) == 1
    assert "skerry gateway run" in capsys.readouterr().err


@pytest.mark.parametrize("days", ["0", "367", "x"])
def test_days_are_those_of_a_year(days: str) -> None:
    with pytest.raises(SystemExit):
        main(["usage", "--days", days])


def test_what_is_not_known_is_no_zero() -> None:
    assert price({"unpriced": 1, "totalCost": 0}) == "unknown"
    assert price({"unpriced": 1, "totalCost": 2}) == "$2.0000 and more"
    assert "count of the provider: 2." in uncounted_notes({"unpriced": 0, "uncounted": 2})[0]


def test_a_test_of_a_model_is_booked_where_there_is_a_ledger(home: Path) -> None:
    config = Config(state_dir=home, path=home / "skerry.json")
    model = ModelInfo("p", "m", "M", cost=ModelCost(input=1_000_000))
    used = model.cost.of(Usage(3, 1, total_tokens=4))
    assert not book_trial(config, model, used, 0.5)
    anyio.run(filled, home)
    assert book_trial(config, model, used, 0.5)

    async def read() -> dict[str, usage.Sums]:
        async with open_store(home / DATABASE) as store:
            return await store.read(
                lambda reader: usage.grouped(reader, usage.UsageGroup.PURPOSE, today(), today())
            )

    sums = anyio.run(read)
    assert (sums["test"].calls, sums["test"].cost) == (1, 3.0)


async def test_calls_that_are_too_old_are_dropped_once_a_day(tmp_path: Path) -> None:
    config = Config(state_dir=tmp_path, path=tmp_path / "skerry.json")
    async with open_store(tmp_path / DATABASE) as store:

        def write(unit: Unit) -> None:
            usage.book(unit, call(1, at=0))
            usage.book(unit, call(2, at=91 * 86_400_000))

        await store.write(write)
        await look(store, config, 91 * 86_400_000, Hooks())
        assert await inputs(store) == [2]


async def inputs(store: Store) -> list[int]:
    rows = await store.read(lambda reader: reader.all("SELECT input FROM model_call"))
    return [row[0] for row in rows]


async def test_the_command_tells_the_owner_of_all_and_others_of_their_conversation(
    tmp_path: Path,
) -> None:
    table = CommandTable()
    async with open_core(tmp_path, ScriptedModel(lambda _: ["yes"]), commands=table) as core:
        costs = Spending(core.store, core.dispatch.runtime.config)
        for command in reply_commands(core.store, costs.report):
            table.add(command)
        (text,) = (await core.ask("/usage cost", "empty")).payloads
        assert "Today, all: nothing" in text
        await core.ask("hello")
        (text,) = (await core.ask("/usage cost", "again")).payloads
        assert "This conversation, 30 days: price unknown; 1 tokens in, 1 out; 1 call" in text
        assert "Today, all: price unknown" in text
