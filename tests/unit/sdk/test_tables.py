"""Tables of a plugin: their steps, their units, and an older plugin."""

from pathlib import Path

import pytest

from skerry.model.errors import PluginError
from skerry.sdk.tables import Database, Reader, Unit

STEPS = ("CREATE TABLE frog (name TEXT)", "ALTER TABLE frog ADD COLUMN leaps INTEGER DEFAULT 7")


def add(unit: Unit) -> None:
    unit.execute("INSERT INTO frog (name) VALUES (?)", ("Ada",))


def count(reader: Reader) -> object:
    return reader.all("SELECT * FROM frog")


async def test_steps_that_are_appended_are_run_on_what_is_stored(tmp_path: Path) -> None:
    old = Database(tmp_path, STEPS[:1])
    await old.write(add)
    old.close()
    assert await Database(tmp_path, STEPS).read(count) == [("Ada", 7)]


async def test_a_unit_that_raises_leaves_nothing(tmp_path: Path) -> None:
    def half(unit: Unit) -> None:
        add(unit)
        raise ValueError("no")

    database = Database(tmp_path, STEPS)
    with pytest.raises(ValueError, match="no"):
        await database.write(half)
    await database.write(add)
    assert await database.read(count) == [("Ada", 7)]


async def test_tables_of_a_newer_plugin_are_left_alone(tmp_path: Path) -> None:
    newer = Database(tmp_path, STEPS)
    await newer.write(add)
    newer.close()
    with pytest.raises(PluginError, match="has run 2 steps; the plugin has 1"):
        await Database(tmp_path, STEPS[:1]).read(count)
