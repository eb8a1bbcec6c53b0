"""Check of `skerry doctor` for the answering model."""

from collections.abc import Mapping

from skerry.features.models.models import expected, model_report
from skerry.model.errors import ClientError, SkerryError
from skerry.ports.checks import Check, Level
from skerry.ports.model import ModelState
from skerry.sdk.features import Installation


async def answering(installation: Installation) -> list[Check]:
    """Returns the state of the answering model."""
    if installation.config is None:
        return []
    return [await _model(installation.environ)]


async def _model(environ: Mapping[str, str]) -> Check:
    try:
        answer = await model_report(environ)
    except ClientError:
        answer = await expected(environ)
    except SkerryError as error:
        return Check("model", Level.FAILURE, str(error), error.remedy)
    status = answer.status
    if status.state is ModelState.UNAVAILABLE or status.model is None:
        return Check("model", Level.FAILURE, status.message or "none", status.remedy)
    if status.failure is not None:
        message = f"{status.model.ref}: its last call failed: {status.failure.message}"
        return Check("model", Level.FAILURE, message, status.failure.remedy)
    text = " - ".join(filter(None, (status.model.ref, status.model.note or status.message)))
    return Check("model", Level.OK, text)
