"""The whole configuration: whose workspace is where, which model answers for whom."""

from pathlib import Path

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
    with pytest.raises(ValidationError, match="loopback"):
        type(gateway).model_validate({"bind": "0.0.0.0"})  # noqa: S104 - what must be refused


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
