"""Check of `skerry doctor` of the embedded model."""

from skerry.features.embedded_model.hardware import Machine
from skerry.model.errors import ModelUnavailableError
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation


async def runs_here(_: Installation) -> list[Check]:
    """Returns whether this machine can run a model inside; nobody who has another needs it."""
    try:
        Machine.here().check_runtime()
    except ModelUnavailableError as error:
        return [Check("embedded model", Level.WARNING, str(error), error.remedy)]
    return [Check("embedded model", Level.OK, "can run here")]
