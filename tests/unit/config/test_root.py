"""The whole configuration: workspaces of agents, and their models."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from skerry.config.root import Config
from skerry.model.ids import AgentId

MAIN, WORK = AgentId("main"), AgentId("work")


def config(agents: dict[str, object]) -> Config:
    return Config.model_validate(
        {"agents": agents, "state_dir": Path("/s"), "path": Path("/s/skerry.json")}
    )


def test_without_a_list_there_is_one_agent() -> None:
    one = config({})
    assert one.agents.ids == (MAIN,)
    assert one.agents.default_id == MAIN
    assert one.workspace(MAIN) == Path("/s/workspace")
    assert one.primary_model(MAIN) is None


def test_every_agent_has_a_directory_of_its_own() -> None:
    one = config({"list": [{"id": "main"}, {"id": "work"}, {"id": "home", "workspace": "~/h"}]})
    assert one.workspace(MAIN) == Path("/s/workspace")
    assert one.workspace(WORK) == Path("/s/workspace-work")
    assert one.workspace(AgentId("home")) == Path.home() / "h"


def test_the_default_directory_is_that_of_the_default_agent_only() -> None:
    listed = [{"id": "main"}, {"id": "work", "default": True}]
    one = config({"defaults": {"workspace": "/d"}, "list": listed})
    assert one.workspace(WORK) == Path("/d")
    assert one.workspace(MAIN) == Path("/s/workspace-main")


def test_an_agent_may_have_a_model_of_its_own() -> None:
    one = config(
        {
            "defaults": {"model": "p/all"},
            "list": [{"id": "main"}, {"id": "work", "model": {"primary": "p/own"}}],
        }
    )
    assert one.primary_model(MAIN) == "p/all"
    assert one.primary_model(WORK) == "p/own"


@pytest.mark.requirement("gateway-default-address")
def test_it_listens_on_loopback_only_at_the_port_that_clients_expect() -> None:
    gateway = config({}).gateway
    assert (gateway.port, gateway.bind) == (18789, "loopback")
    assert gateway.addresses == ("127.0.0.1",)
    assert not gateway.exposed
    with pytest.raises(ValidationError, match="'loopback', 'lan' or an IP address"):
        type(gateway).model_validate({"bind": "example.org"})


@pytest.mark.parametrize(
    ("bind", "addresses", "exposed"),
    [
        ("lan", ("0.0.0.0",), True),  # noqa: S104 - what is asked for
        ("0.0.0.0", ("0.0.0.0",), True),  # noqa: S104 - as above
        ("::", ("0.0.0.0", "::"), True),  # noqa: S104 - as above
        ("192.0.2.7", ("127.0.0.1", "192.0.2.7"), True),
        ("127.0.0.1", ("127.0.0.1",), False),
        ("127.0.0.2", ("127.0.0.1", "127.0.0.2"), False),
        ("::1", ("127.0.0.1", "::1"), False),
    ],
)
def test_other_machines_are_let_in_only_when_asked_who_they_are(
    bind: str, addresses: tuple[str, ...], *, exposed: bool
) -> None:
    section = type(config({}).gateway)
    gateway = section.model_validate({"bind": bind})
    assert (gateway.addresses, gateway.exposed) == (addresses, exposed)
    open_to_all = {"bind": bind, "auth": {"mode": "none"}}
    if exposed:
        with pytest.raises(ValidationError, match=r"auth\.mode must be 'token' or 'password'"):
            section.model_validate(open_to_all)
    else:
        assert section.model_validate(open_to_all).auth.secret is None


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"controlUi": {"allowedOrigins": ["*"]}}, "must be one site"),
        ({"controlUi": {"allowedOrigins": ["https://a.example/path"]}}, "must be one site"),
        ({"controlUi": {"allowedOrigins": ["ftp://a.example"]}}, "must be one site"),
        ({"trustedProxies": ["proxy.example"]}, "must be an address or a network"),
        ({"auth": {"mode": "password", "password": ""}}, "must not be empty"),
    ],
)
def test_what_could_open_something_is_refused(section: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        type(config({}).gateway).model_validate(section)


@pytest.mark.requirement("agent-run-timeout-600s")
def test_a_run_may_take_ten_minutes_unless_configured() -> None:
    assert config({}).agents.defaults.timeout_seconds == 600
    assert config({"defaults": {"timeoutSeconds": 5}}).agents.defaults.timeout_seconds == 5


def test_it_cannot_be_changed() -> None:
    one = config({})
    with pytest.raises(ValidationError, match="frozen"):
        one.state_dir = Path("/elsewhere")  # type: ignore[misc]  # that is the test


def test_where_it_came_from_is_no_key_of_the_file() -> None:
    assert {"state_dir", "path", "stateDir"} & config({}).model_dump(by_alias=True).keys() == set()
