"""Overrides of the configuration in a request, and the scopes that they need."""

from skerry.gateway.method import Call, RefusedError, missing_scope
from skerry.model.errors import ModelUnavailableError
from skerry.policy import access
from skerry.policy.access import Verb
from skerry.policy.decide import Request, decide


def need_admin(call: Call) -> None:
    """Checks that the caller may decide what a run does or costs.

    Raises:
        RefusedError: `operator.admin` is missing.
    """
    decision = decide(Request(call.actor, Verb.CALL, access.PATCH, access.SETTINGS))
    if decision.scope is not None:
        raise RefusedError.of(missing_scope(decision.scope), None)


async def known_model(call: Call, ref: str) -> str:
    """Returns the full name of a model.

    Raises:
        RefusedError: the model cannot be used.
    """
    try:
        _, info = await call.context.models.choose(ref)
    except ModelUnavailableError as error:
        provider, slash, _ = ref.partition("/")
        message = f'Unknown provider "{provider}"' if slash else f'Unknown model "{ref}"'
        details = {"code": error.code, "remedy": error.remedy or str(error)}
        raise RefusedError(message, details=details) from None
    return info.ref
