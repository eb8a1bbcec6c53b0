"""How the last call of a model failed, until it answers again."""

from skerry.model.errors import (
    ModelAuthError,
    ModelConnectionError,
    ModelOverflowError,
    ModelRateLimitError,
)
from skerry.providers.model_health import ModelFailures, remedy_of


def test_a_failure_lasts_until_the_model_answers() -> None:
    failures = ModelFailures(lambda: 7)
    failures.note("a/b", ModelAuthError("No."))
    model_failure = failures.of("a/b")
    assert model_failure is not None
    assert (model_failure.code, model_failure.message, model_failure.at) == ("model.auth", "No.", 7)
    assert "skerry auth add" in model_failure.remedy
    failures.note("a/c", None)
    assert failures.of("a/b") == model_failure
    failures.note("a/b", None)
    assert failures.of("a/b") is None


def test_what_was_asked_is_no_failure_of_the_model() -> None:
    failures = ModelFailures(lambda: 7)
    failures.note("a/b", ModelOverflowError("Too long."))
    assert failures.of("a/b") is None


def test_it_does_not_grow_without_end_and_is_forgotten_with_new_settings() -> None:
    failures = ModelFailures(lambda: 7)
    for number in range(1000):
        failures.note(f"a/{number}", ModelConnectionError("Gone."))
    assert failures.of("a/0") is None
    assert failures.of("a/999") is not None
    failures.clear()
    assert failures.of("a/999") is None


def test_each_failure_has_a_remedy() -> None:
    assert "models use" in remedy_of(ModelRateLimitError("Slower."))
    assert "network" in remedy_of(ModelConnectionError("Gone."))
