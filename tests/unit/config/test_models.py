"""The section `models`: the settings of providers."""

from typing import Any

import pytest
from pydantic import ValidationError

from skerry.config.models import ProviderConfig


@pytest.mark.parametrize("name", ["", "a b", "x:y", "ключ", "Content-Length", "connection"])
def test_a_header_that_cannot_be_sent_or_is_the_transports_is_refused(name: str) -> None:
    headers = {name: "canary-secret"}
    for section in ({"headers": headers}, {"models": [{"id": "m", "headers": headers}]}):
        with pytest.raises(ValidationError, match="not a header that can be set"):
            ProviderConfig.model_validate({"baseUrl": "http://127.0.0.1/v1", **section})


@pytest.mark.parametrize(
    ("url", "accepted"),
    [
        ("http://127.0.0.1:1/v1", True),
        ("https://me:password@example.com/v1/", True),
        ("https://example.com/v1?api-version=3", False),
        ("https://example.com/v1#", False),
        ("ftp://example.com/v1", False),
    ],
)
def test_an_address_is_one_to_which_something_can_be_added(url: str, *, accepted: bool) -> None:
    section: dict[str, Any] = {"baseUrl": url, "headers": {"X-Org": "a"}}
    try:
        ProviderConfig.model_validate(section)
    except ValidationError:
        assert not accepted
    else:
        assert accepted
