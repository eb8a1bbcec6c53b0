"""A whole gateway in the test's own process: the real application, a scripted model, a platform."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from skerry.app.build import Application, Outside, open_application
from skerry.app.settings import Settings
from skerry.client.discover import GatewayAddress
from skerry.config.load import prepare
from skerry.gateway.server import create_app
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import Clock, SystemClock
from skerry.ports.channel import ChannelAdapter
from skerry.testing.channel import OPEN, FakePlatform, MemoryChannel
from skerry.testing.model import ScriptedModel, ScriptedModels, echo
from tests.support.gateway import serving

CALL = 'call read {"path": "note.txt"}'
"""What makes the model read the note that every workspace has."""


@asynccontextmanager
async def whole_gateway(  # noqa: PLR0913 - each has a default; a test names what it needs
    home: Path,
    hooks: Hooks,
    platform: FakePlatform | None = None,
    config: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    model: ScriptedModel | None = None,
    adapters: Sequence[ChannelAdapter] = (),
) -> AsyncIterator[tuple[Application, GatewayAddress]]:
    """Serves a gateway whose state is in `home`, with `hooks`, and an account on `platform`.

    `model` repeats what it reads unless another is given; `adapters` are further accounts.
    """
    given = {**(environ or {}), "HOME": str(home), "SKERRY_STATE_DIR": str(home)}
    if config is not None:
        home.mkdir(mode=0o700)
        (home / "skerry.json").touch(mode=0o600)
        (home / "skerry.json").write_bytes(msgspec.json.encode(config))
    settings = Settings(prepare(given), given)
    outside = Outside(
        models=ScriptedModels(model or ScriptedModel(echo)),
        adapters=[*adapters, *([MemoryChannel(platform)] if platform else [])],
        unnamed_channels=OPEN,
        hooks=hooks,
        clock=clock or SystemClock(),
    )
    async with (
        open_application(settings, given, outside) as application,
        serving(create_app(application.context)) as port,
    ):
        for agent in settings.config.agents.ids:
            (settings.config.workspace(agent) / "note.txt").write_text(f"a note of {agent}")
        yield (
            application,
            GatewayAddress(
                f"ws://127.0.0.1:{port}", application.context.config().gateway.auth.secret
            ),
        )
