"""Commands of nodes that an agent may use: the defaults, the lists, and fixed refusals."""

import pytest
from pydantic import ValidationError

from skerry.features.nodes.command_rules import ruling
from skerry.features.nodes.config import NodesConfig
from skerry.policy.effect import ToolEffect

ALLOW, ASK, DENY = ToolEffect.ALLOW, ToolEffect.ASK, ToolEffect.DENY


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("device.info", ALLOW),
        ("device.status", ALLOW),
        ("camera.list", ALLOW),
        ("camera.snap", ASK),
        ("camera.clip", ASK),
        ("screen.record", ASK),
        ("location.get", ASK),
        ("system.notify", ASK),
        ("browser.proxy", ASK),
        ("system.run", DENY),
        ("system.run.prepare", DENY),
        ("system.execApprovals.set", DENY),
    ],
)
def test_without_a_list_only_descriptions_run_unasked(command: str, effect: ToolEffect) -> None:
    assert ruling(NodesConfig(), command).effect is effect


def test_lists_name_commands_or_patterns_and_denial_comes_first() -> None:
    settings = NodesConfig(
        allow_commands=("camera.*", "system.*"), deny_commands=("camera.clip", "device.*")
    )
    expected = {
        "camera.snap": ALLOW,
        "camera.clip": DENY,
        "device.info": DENY,
        "system.notify": ALLOW,
        "system.run": DENY,
        "cameraX.snap": ASK,
    }
    assert {command: ruling(settings, command).effect for command in expected} == expected


@pytest.mark.parametrize("entry", ["", "camera.[st]nap", "camera snap", ".x", "a" * 129])
def test_an_entry_that_is_no_command_is_an_error(entry: str) -> None:
    with pytest.raises(ValidationError):
        NodesConfig(allow_commands=(entry,))
