"""Services run from the start of the gateway until it stops, and again after a failure."""

from pathlib import Path

import anyio

from skerry.app import services
from skerry.gateway.context import GatewayContext
from skerry.hooks.hooks import Hooks
from skerry.sdk.features import Features
from tests.support.whole import whole_gateway


async def test_a_service_of_a_feature_gets_the_context_of_the_gateway(tmp_path: Path) -> None:
    gateway_contexts: list[GatewayContext] = []

    async def run(context: GatewayContext) -> None:
        gateway_contexts.append(context)

    async with whole_gateway(tmp_path / "home", Hooks()) as (application, _):
        features = Features(services=[("pond", lambda: run)])
        for _, service in services.of_features(application.context, features):
            await service()
    assert gateway_contexts == [application.context]


async def test_a_service_of_a_plugin_runs_with_the_gateway_and_is_cancelled(
    tmp_path: Path,
) -> None:
    plugin = tmp_path / "frogs.py"
    plugin.write_text(
        "import anyio, pathlib\n"
        f"mark = pathlib.Path({str(tmp_path)!r})\n"
        "async def run():\n"
        "    try:\n"
        "        (mark / 'started').touch()\n"
        "        await anyio.sleep_forever()\n"
        "    finally:\n"
        "        (mark / 'ended').touch()\n"
        "def register(api): api.register_service('croak', run)\n",
        "utf-8",
    )
    plugin.chmod(0o600)
    given = {"plugins": {"load": {"paths": [str(plugin)]}}}
    async with whole_gateway(tmp_path / "home", Hooks(), config=given) as (application, _):
        assert application.context.plugins is not None
        (report,) = application.context.plugins.reports
        assert report.services == ("frogs.croak",), report
        with anyio.fail_after(60):
            while not (tmp_path / "started").exists():  # noqa: ASYNC110 - made by another task
                await anyio.sleep(0.01)
        assert not (tmp_path / "ended").exists()
    assert (tmp_path / "ended").exists()
