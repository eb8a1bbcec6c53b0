"""The section `tools.web`: hosts that the owner permits for fetches."""

import pytest
from pydantic import ValidationError

from skerry.config.tools_web import SsrfPolicy
from skerry.policy.network import NetworkRules


def policy(**keys: object) -> SsrfPolicy:
    return SsrfPolicy.model_validate(keys)


def test_nothing_is_open_by_default() -> None:
    assert policy().rules == NetworkRules()


def test_hosts_become_what_the_policy_compares() -> None:
    hosts = policy(allowedHostnames=["NAS.lan:8080", "[FD00::1]:80", "10.0.0.7:443"]).rules
    assert hosts.allowed_hosts == {("nas.lan", 8080), ("fd00::1", 80), ("10.0.0.7", 443)}


@pytest.mark.parametrize(
    "text", ["nas.lan", "nas.lan:", "nas.lan:x", "http://nas.lan:80", "*.lan:80", "a.lan:80/x"]
)
def test_a_host_without_its_port_is_an_error_that_shows_the_form(text: str) -> None:
    with pytest.raises(ValidationError, match=r"nas\.lan:8080"):
        policy(allowedHostnames=[text])


@pytest.mark.parametrize("text", ["*", "*.", "a.*.com", "http://a.com", "a.com:80", "a.com/x"])
def test_a_pattern_of_names_is_a_name_or_what_is_below_it(text: str) -> None:
    with pytest.raises(ValidationError, match=r"example\.com"):
        policy(hostnameAllowlist=[text])
    assert policy(hostnameAllowlist=["*.Example.com"]).rules.only_hosts == ("*.Example.com",)
