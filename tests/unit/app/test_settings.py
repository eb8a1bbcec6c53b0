"""Reports on an edit that takes effect and has unknown keys."""

import logging
from pathlib import Path

import pytest

from skerry.app.settings import Settings
from skerry.config.load import prepare


async def test_an_edit_with_an_unknown_key_is_used_and_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"HOME": str(tmp_path), "SKERRY_STATE_DIR": str(tmp_path)}
    settings = Settings(prepare(environ), environ)
    path = settings.config.path
    path.write_text('{"agents": {"defaults": {"modle": "a/b"}}}')
    path.chmod(0o600)
    with caplog.at_level(logging.WARNING):
        await settings.reload()
        await settings.reload()
    (text,) = [record.getMessage() for record in caplog.records if "modle" in record.getMessage()]
    assert text.startswith("agents.defaults.modle: ")
