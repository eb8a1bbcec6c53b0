"""Trying a model: it ends, whatever the model does."""

import json
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream

from skerry.app import models
from skerry.app.models import trial
from skerry.model.errors import ModelConnectionError
from tests.support.sockets import listening


async def test_a_trial_of_a_server_that_is_silent_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "TRIAL_SECONDS", 0.1)

    async def silent(stream: SocketStream) -> None:
        async with stream:
            await anyio.sleep_forever()

    async with listening(silent) as port:
        den = {"baseUrl": f"http://127.0.0.1:{port}/v1", "models": [{"id": "m"}]}
        (tmp_path / "skerry.json").write_text(json.dumps({"models": {"providers": {"den": den}}}))
        done = await trial({"SKERRY_STATE_DIR": str(tmp_path)}, "den/m")
    assert isinstance(done, ModelConnectionError)
    assert str(done) == "den/m gave no whole answer within 0.1 s."
