"""Which texts of a configuration and an environment are secrets."""

from pathlib import Path

from skerry.config.root import Config
from skerry.config.secrets import secrets


def test_every_secret_is_found_by_its_type_or_its_name() -> None:
    config = Config.model_validate(
        {
            "stateDir": Path("/s"),
            "path": Path("/s/skerry.json"),
            "gateway": {"auth": {"token": "the-token"}},
            "models": {
                "providers": {
                    "one": {"baseUrl": "http://127.0.0.1:1/v1", "apiKey": "the-key"},
                }
            },
        }
    )
    environ = {"OPENAI_API_KEY": "from-outside", "HOME": "/home/a", "EMPTY_TOKEN": ""}
    assert secrets(config, environ) == {"the-token", "the-key", "from-outside"}
