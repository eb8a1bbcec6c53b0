"""Modules that are imported when they are first used."""

import subprocess
import sys
from types import ModuleType

import pytest

from skerry.infra.late import Late, late

PROGRAM = """
import sys
from skerry.features.memory.late import editing
assert "skerry.features.memory.editing" not in sys.modules
print(editing.save.__name__)
assert "skerry.features.memory.editing" in sys.modules
"""


def test_a_module_is_imported_when_an_attribute_is_read() -> None:
    command = [sys.executable, "-c", PROGRAM]
    assert subprocess.run(command, check=True, capture_output=True).stdout == b"save\n"


def test_a_name_of_the_import_system_is_no_module() -> None:
    module = ModuleType("listed")
    vars(module)["__getattr__"] = late("json")
    assert isinstance(module.decoder, Late)
    with pytest.raises(AttributeError):
        vars(module)["__getattr__"]("__path__")
