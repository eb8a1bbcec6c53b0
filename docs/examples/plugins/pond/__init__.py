"""A pond: an example of each part that a plugin can register, except those of the kitchen."""

from argparse import ArgumentParser
from pathlib import Path

import anyio
from pydantic import BaseModel

from skerry.sdk.api import PluginApi
from skerry.sdk.cli import CliCall
from skerry.sdk.methods import MethodCall

from .echo import MODELS, EchoProvider
from .frogs import STEPS, Frogs
from .platform import PondChannel


class NoParams(BaseModel, extra="forbid"):
    """The method has no parameters."""


def register(api: PluginApi) -> None:
    """Registers all parts."""
    frogs = Frogs(api.database(STEPS), api.register_event("leapt", "A frog leapt into the pond."))

    async def leaps(_params: NoParams, _call: MethodCall) -> dict[str, int]:
        return {"leaps": await frogs.leaps()}

    async def croak() -> None:
        while True:
            api.logger.info("croak")
            await anyio.sleep(3600)

    api.register_http_route("leap", frogs.leap, methods=["POST"], max_body=1000)
    api.register_http_route("hook", frogs.leap, methods=["POST"], is_public=True, seconds=5)
    api.register_gateway_method("leaps", NoParams, leaps, scope="operator.read")
    api.register_doctor_check(frogs.check)
    api.register_service("croak", croak)
    api.register_cli_command("how many frogs leapt", told, add=arguments)
    api.register_page_panel("The pond", Path(__file__).parent / "panel")
    api.register_skill_dir(Path(__file__).parent / "skills")
    api.register_channel(PondChannel(api.data_dir))
    api.register_model_provider(EchoProvider(), MODELS)


async def told(call: CliCall) -> int:
    """Runs `skerry pond`, which calls the running gateway."""
    answer = await call.ask("pond.leaps", {})
    call.show(f"{call.arguments.greeting}: {answer['leaps']} leaps")
    return 0


def arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of `skerry pond`."""
    parser.add_argument("--greeting", default="The pond", help="begins the line")
