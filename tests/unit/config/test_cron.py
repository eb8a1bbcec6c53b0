"""Section `cron`: only listed webhooks receive the token."""

import pytest
from pydantic import ValidationError

from skerry.config.cron import CronConfig

LISTED = ["https://one.example.org/hook?id=1", "https://two.example.org/mine/"]


@pytest.mark.parametrize(
    ("address", "is_sent"),
    [
        ("https://one.example.org/hook?id=1", True),
        ("https://ONE.example.org:443/hook?id=1", True),
        ("https://two.example.org/mine/", True),
        ("https://two.example.org/mine/a/b?c=..", True),
        ("https://one.example.org/hook", False),
        ("https://one.example.org/hook?id=12", False),
        ("http://one.example.org/hook?id=1", False),
        ("https://one.example.org:8443/hook?id=1", False),
        ("https://two.example.org/mine", False),
        ("https://two.example.org/other/", False),
        ("https://two.example.org/mine/../other", False),
        ("https://two.example.org/mine/%2E%2e/other", False),
        ("https://two.example.org/mine/.%2e", False),
        ("https://two.example.org@evil.example/mine/", False),
        ("https://two.example.org.evil.example/mine/", False),
        ("nonsense", False),
    ],
)
def test_the_token_is_for_listed_addresses_alone(address: str, *, is_sent: bool) -> None:
    config = CronConfig.model_validate({"webhookToken": "t", "webhookTokenUrls": LISTED})
    assert config.token_for(address) == ("t" if is_sent else None)
    assert CronConfig.model_validate({"webhookToken": "t"}).token_for(address) is None
    assert CronConfig.model_validate({"webhookTokenUrls": LISTED}).token_for(address) is None


def test_an_entry_that_is_no_address_is_refused() -> None:
    with pytest.raises(ValidationError, match="not the address of a webhook"):
        CronConfig.model_validate({"webhookTokenUrls": ["example.org"]})
