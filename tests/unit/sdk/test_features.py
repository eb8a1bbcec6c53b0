"""What features register, and the sum of it that the kernel uses."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import skerry
from skerry.gateway.dispatch import MethodTable
from skerry.gateway.method import Method, NoParams
from skerry.infra.features import FEATURES, Feature
from skerry.policy import access
from skerry.policy.access import ADMINS, READERS
from skerry.sdk.features import FeatureApi, registered

SOURCE = Path(skerry.__file__).parent
FOLDER = SOURCE / "features"


def test_each_folder_is_a_line_and_each_line_a_folder() -> None:
    folders = sorted(path.parent.name for path in FOLDER.glob("*/__init__.py"))
    assert folders == sorted(feature.name for feature in FEATURES)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda one: one.name)
def test_a_feature_registers_exactly_the_methods_that_it_has(feature: Feature) -> None:
    features = registered((feature,))
    # The need of a method that a chat command stands for is in the table of the kernel.
    of_commands = {method.name for method in features.load_methods()} & {*access.COMMANDS.values()}
    assert {
        method.name for method in features.load_methods()
    } - of_commands == features.methods.keys()
    assert not features.methods.keys() & access.METHODS.keys()
    for load in (*features.checks, *features.status_checks, *(run for _, run in features.services)):
        assert callable(load())


def test_the_kernel_names_a_feature_in_its_line_only() -> None:
    """Imports are a contract of their own; this finds the path in a string."""
    named = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if "skerry.features." in path.read_text("utf-8") and not path.is_relative_to(FOLDER)
    }
    assert named == {"infra/features.py"}


def test_help_imports_no_feature_and_the_help_of_a_command_only_its_parser() -> None:
    code = (
        "import sys, skerry.cli.main as m\n"
        "try: m.main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(*(n for n in sys.modules if n.startswith('skerry.features.')), file=sys.stderr)"
    )
    loaded = []
    for words in (["--help"], ["outbox", "--help"]):
        completed = subprocess.run(
            [sys.executable, "-c", code, *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        loaded.append(completed.stderr.split())
    assert loaded == [[], ["skerry.features.outbox", "skerry.features.outbox.cli"]]


@pytest.fixture
def feature() -> Iterator[Feature]:
    """Gives a feature with a method, an event, a check and a service, in modules of its own."""
    plugin, parts = (ModuleType(f"skerry.features.pond.{name}") for name in ("plugin", "parts"))

    def register(api: FeatureApi) -> None:
        api.methods({"pond.list": READERS}, "parts:METHODS")
        api.event("pond.frozen", ADMINS, "The pond is frozen.")
        api.status_check("parts:check")
        api.service("parts:run")

    vars(plugin)["register"] = register
    vars(parts).update(
        METHODS=(Method("pond.list", NoParams, lambda _call, _params: []),),
        check=lambda _: (),
        run=lambda _: None,
    )
    sys.modules[plugin.__name__] = plugin
    sys.modules[parts.__name__] = parts
    yield Feature("pond")
    del sys.modules[plugin.__name__], sys.modules[parts.__name__]


def test_the_table_of_methods_has_those_of_the_kernel_and_of_features(feature: Feature) -> None:
    table = MethodTable(features=registered((feature,)))
    assert table.needs["pond.list"] is READERS
    assert "pond.list" in [method.name for method in table.methods]
    assert "pond.frozen" in table.events


def test_two_features_with_one_method_stop_the_start(feature: Feature) -> None:
    with pytest.raises(RuntimeError, match=r"pond\.list"):
        registered((feature, feature))
