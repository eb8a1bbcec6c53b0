"""Check of `skerry doctor` for the embedded model."""

from skerry.features.embedded_model.hardware import Machine
from skerry.model.errors import ModelUnavailableError
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation


async def runs_here(_: Installation) -> list[Check]:
    """Checks that this machine can run the embedded model, which is optional."""
    try:
        Machine.detected().check_runtime()
    except ModelUnavailableError as error:
        return [Check("embedded model", Level.WARNING, str(error), error.remedy)]
    return [Check("embedded model", Level.OK, "can run here")]
