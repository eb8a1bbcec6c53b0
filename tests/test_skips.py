"""Under `make test-all` only the tests of a list are skipped, each with its reason."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from scripts.requirements import ROOT

LIST = tomllib.loads((ROOT / "tests/skips.toml").read_text(encoding="utf-8"))["skips"]
SKIPS = {"pytest.skip", "pytest.importorskip", "pytest.mark.skipif", "pytest.mark.skip"}


def reason_of(call: ast.Call) -> str:
    """Returns the reason of a skip, with the names of inserted values."""
    reason = next((keyword.value for keyword in call.keywords if keyword.arg == "reason"), None)
    match reason or (call.args[0] if call.args else None):
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(
                str(part.value)
                if isinstance(part, ast.Constant)
                else ast.unparse(part).strip("f'\"")
                for part in parts
            )
        case _:
            return f"line {call.lineno}: no reason"


def skips(text: str) -> Iterator[str]:
    if "skip" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in SKIPS:
            yield reason_of(node)


def test_every_skip_is_listed_and_every_listed_one_is_there() -> None:
    files = [path for path in (ROOT / "tests").rglob("*.py") if "node_modules" not in path.parts]
    found = {
        reason
        for path in files
        if path.name != "conftest.py" and path != Path(__file__)
        for reason in skips(path.read_text(encoding="utf-8"))
    }
    assert found == {row["reason"] for row in LIST}
    assert all(row["why"].endswith(".") for row in LIST)


def test_a_skip_without_a_reason_is_found() -> None:
    text = "@pytest.mark.skipif(True)\ndef test_a(): pytest.skip(f'no {HERE}')\n"
    assert set(skips(text)) == {"line 1: no reason", "no {HERE}"}
