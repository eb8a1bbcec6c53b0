"""What `skerry memory forget` says when it is done."""

from typing import Any

import pytest

from skerry.features.memory.cli_forget import _COUNTS, _erased


@pytest.mark.parametrize(
    ("waits", "text"), [(1, "1 run may still have it"), (2, "2 runs may still have it")]
)
def test_runs_that_may_still_have_it_are_counted_in_words(waits: int, text: str) -> None:
    payload: dict[str, Any] = dict.fromkeys((name for name, *_ in _COUNTS), 0)
    lines = _erased(
        payload | {"lines": [{}], "waits": waits, "left": [], "backups": [], "near": []}
    )
    assert lines[0] == "Forgotten: 1 statement in files."
    assert [text in line for line in lines].count(True) == 1
