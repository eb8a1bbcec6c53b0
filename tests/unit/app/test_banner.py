"""The banner of a gateway when it is ready."""

import pytest

from skerry.app.banner import greeting
from skerry.ports.model import ModelInfo, ModelOffer, ModelState, ModelStatus

GOOD = ModelInfo("openai", "gpt", "GPT")
DEMONSTRATION = ModelInfo("embedded", "tiny", "Tiny", supports_tools=False, note="It is small.")


def test_programs_find_the_address_in_the_first_line() -> None:
    text = greeting(ModelStatus(ModelState.READY, GOOD), 7, "secret")
    assert text.splitlines()[0] == "ready ws://127.0.0.1:7"
    assert "http://127.0.0.1:7/#token=secret" in text
    assert "Better" not in text


def test_without_a_token_the_command_that_opens_the_page_is_named() -> None:
    text = greeting(ModelStatus(ModelState.READY, GOOD), 7)
    assert "http://127.0.0.1:7/ (open it: " in text
    assert "token" not in text


@pytest.mark.parametrize(
    "status",
    [
        ModelStatus(ModelState.READY, DEMONSTRATION, DEMONSTRATION.note),
        ModelStatus(ModelState.UNAVAILABLE, None, "No model.", "Set a key."),
    ],
    ids=["demonstration", "none"],
)
def test_the_step_to_a_better_model_is_named_where_one_is_needed(status: ModelStatus) -> None:
    text = greeting(status, 7, None)
    assert "models use FILE.gguf" in text
    assert status.message in text


def test_the_command_can_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/skerry", "gateway", "run"])
    text = greeting(ModelStatus(ModelState.READY, GOOD), 7, None)
    assert "  Chat    .venv/bin/skerry chat" in text


def test_a_local_server_that_waits_is_named_with_the_command_that_confirms_it() -> None:
    offer = ModelOffer("ollama", "Ollama", "127.0.0.1:11434", "ada")
    status = ModelStatus(ModelState.READY, DEMONSTRATION, DEMONSTRATION.note, offers=(offer,))
    text = greeting(status, 7)
    assert "Found   Ollama answers on 127.0.0.1:11434 (run by user ada)." in text
    assert " models trust ollama" in text
