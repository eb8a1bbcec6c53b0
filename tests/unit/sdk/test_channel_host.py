"""Parts of the gateway for accounts: mappings with a bound."""

from skerry.sdk.channel_host import Recent


def test_what_was_set_first_is_forgotten_first() -> None:
    names = Recent[str, int](2)
    names["a"], names["b"], names["a"], names["c"] = 1, 2, 3, 4
    assert dict(names) == {"a": 3, "c": 4}
