"""The patches of tests/mutations can be applied, name tests, and say what those prove."""

import subprocess
import sys
import tomllib
from pathlib import Path

from scripts.mutate import fault, patches
from scripts.requirements import ROOT, rules
from tests.support.listed import missing

PATCHES = patches()


def proved() -> set[str]:
    """Returns the subjects of patches: findings of the reviews, promises, rules."""
    table = tomllib.loads((ROOT / "tests" / "reviews.toml").read_text(encoding="utf-8"))
    findings = {f"{review}.{id_}" for review, ids in table["whole"].items() for id_ in ids}
    return findings | {"promises"} | {f"rules.{rule}" for rule in rules()}


def test_the_text_of_each_patch_occurs_exactly_once() -> None:
    faults = {patch.name: fault(patch) for patch in PATCHES}
    assert faults
    wrong = {name: why for name, why in faults.items() if why}
    assert wrong == {}, "move the patch with its line, or take both away"


def test_no_patch_uses_a_name_that_its_file_lacks(tmp_path: Path) -> None:
    # A patch that was left behind by a rename fails by a NameError, whatever its tests are for.
    for number, patch in enumerate(PATCHES):
        if patch.file.endswith(".py"):
            text = (ROOT / patch.file).read_text(encoding="utf-8")
            spoiled = text.replace(patch.find, patch.put, 1)
            (tmp_path / f"patch{number}.py").write_text(spoiled, encoding="utf-8")
    assert len(list(tmp_path.iterdir())) > len(PATCHES) // 2
    check = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "F821"]
    completed = subprocess.run(
        [*check, "--output-format", "concise", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in completed.stdout.splitlines() if line.startswith("patch")]
    wrong = {
        PATCHES[int(line.partition(".")[0].removeprefix("patch"))].name: line for line in lines
    }
    assert wrong == {}
    assert completed.returncode == 0, completed.stderr


def test_every_test_that_is_named_exists() -> None:
    assert PATCHES
    assert missing(test for patch in PATCHES for test in patch.tests) == set()
    assert [patch.name for patch in PATCHES if not patch.tests] == []


def test_each_has_a_name_of_its_own_and_is_small() -> None:
    assert len({patch.name for patch in PATCHES}) == len(PATCHES)
    lines = {patch.name: max(patch.find.count("\n"), patch.put.count("\n")) for patch in PATCHES}
    assert {name: count for name, count in lines.items() if count > 3} == {}


def test_what_it_is_of_is_known() -> None:
    known = proved()
    assert {
        patch.name: patch.of for patch in PATCHES if not patch.of or set(patch.of) - known
    } == {}


def test_a_patch_of_a_rule_is_for_the_tests_of_the_rule() -> None:
    proofs = {f"rules.{name}": set(row.get("tests", ())) for name, row in rules().items()}
    apart = [
        (patch.name, of)
        for patch in PATCHES
        for of in patch.of
        if of in proofs and not proofs[of] & set(patch.tests)
    ]
    assert apart == [], "mark a test of the patch with the rule"


def test_each_rule_that_is_done_has_a_patch_that_breaks_it() -> None:
    text = (ROOT / "tests" / "rules-without-patches.toml").read_text(encoding="utf-8")
    exceptions: dict[str, str] = tomllib.loads(text)["rules"]
    done = {name for name, rule in rules().items() if rule["status"] == "done"}
    patched = {of.removeprefix("rules.") for patch in PATCHES for of in patch.of}
    assert done
    without = sorted(done - patched - exceptions.keys())
    assert without == [], "add a patch and see it fail: make mutations ONLY=words"
    assert exceptions.keys() - (done - patched) == set(), "it has a patch, or is not done"
    assert [name for name, reason in exceptions.items() if not reason.endswith(".")] == []
