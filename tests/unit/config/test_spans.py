"""A duration is shown as it may be written again."""

from pathlib import Path
from typing import Any

import pytest

from skerry.config.redact import redact_config
from skerry.config.root import Config
from skerry.config.session import duration, span


@pytest.mark.parametrize("text", ["30d", "1d", "36h", "90m", "1s", "1500ms", "365d"])
def test_what_is_shown_means_just_as_much(text: str) -> None:
    milliseconds = duration(text)
    assert isinstance(milliseconds, int)
    assert span(milliseconds) == text


def test_the_configuration_shows_no_milliseconds_that_would_be_read_as_days(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "session": {"maintenance": {"pruneAfter": "2w"}},
        "usage": {"keepCalls": 10},
    }
    config = Config.model_validate(
        {**fields, "state_dir": tmp_path, "path": tmp_path / "skerry.json"}
    )
    shown: Any = redact_config(config)
    assert shown["session"]["maintenance"]["pruneAfter"] == "14d"
    assert shown["usage"]["keepCalls"] == "10d"
    again = {key: shown[key] for key in ("session", "usage")}
    read = Config.model_validate({**again, "state_dir": tmp_path, "path": config.path})
    assert read.usage.keep_calls == config.usage.keep_calls
