"""An upgrade never breaks the configuration: files of earlier versions, and of OpenClaw 2026.2."""

import json
from pathlib import Path
from typing import Any

import pytest

from skerry.config.load import load
from skerry.config.write import ConfigAuthor, set_values

FIRST_VERSION: dict[str, Any] = {
    "gateway": {
        "mode": "local",
        "port": 18790,
        "bind": "loopback",
        "auth": {"mode": "token", "token": "5eed" * 12},
        "tickIntervalMs": 20000,
        "drainSeconds": 5,
    },
    "agents": {
        "defaults": {
            "model": "openai/gpt-5.4-mini",
            "workspace": "~/den",
            "timeoutSeconds": 60,
            "maxConcurrent": 2,
        },
        "list": [{"id": "main", "default": True, "name": "Ada", "model": {"primary": "a/b"}}],
    },
    "models": {
        "providers": {
            "den": {
                "baseUrl": "http://127.0.0.1:9000/v1",
                "apiKey": "k",
                "api": "openai-completions",
                "models": [{"id": "m", "name": "M", "contextWindow": 4096, "maxTokens": 100}],
            }
        },
        "embedded": {"file": "/models/x.gguf", "threads": 2, "contextWindow": 2048},
    },
    "messages": {"queue": {"mode": "followup"}},
}
"""Every key that the first version knew."""

OPENCLAW: dict[str, Any] = {
    "$schema": "https://example.invalid/schema.json",
    "meta": {"lastTouchedVersion": "2026.2.17", "lastTouchedAt": "2026-02-17T00:00:00.000Z"},
    "wizard": {"lastRunAt": "2026-02-17T00:00:00.000Z", "lastRunCommand": "onboard"},
    "env": {"vars": {"STUB_KEY": "k"}, "shellEnv": {"enabled": False}},
    "auth": {"profiles": {"anthropic:default": {"provider": "anthropic", "mode": "api_key"}}},
    "gateway": {
        "mode": "local",
        "port": 21020,
        "bind": "loopback",
        "auth": {"mode": "token", "token": "5eed" * 12},
    },
    "agents": {
        "defaults": {
            "model": {"primary": "stub/stub-model", "fallbacks": ["stub/other"]},
            "workspace": "~/.openclaw/workspace",
            "maxConcurrent": 4,
            "subagents": {"maxConcurrent": 8},
            "heartbeat": {"every": "30m"},
            "compaction": {"mode": "safeguard"},
        },
        "list": [{"id": "main", "identity": {"name": "Clawd", "emoji": "🦞", "creature": "crab"}}],
    },
    "bindings": [{"agentId": "main", "match": {"channel": "whatsapp", "accountId": "default"}}],
    "models": {
        "mode": "merge",
        "providers": {
            "stub": {
                "baseUrl": "http://127.0.0.1:9000/v1",
                "apiKey": "${STUB_KEY}",
                "api": "openai-completions",
                "models": [
                    {
                        "id": "stub-model",
                        "name": "Stub",
                        "reasoning": False,
                        "input": ["text"],
                        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
                        "contextWindow": 200000,
                        "maxTokens": 8192,
                    }
                ],
            }
        },
    },
    "messages": {"ackReactionScope": "group-mentions", "queue": {"mode": "steer"}},
    "commands": {"native": "auto", "nativeSkills": "auto"},
    "skills": {"install": {"nodeManager": "npm"}},
}
"""As OpenClaw 2026.2 writes it, less what would leave something open if it were ignored."""


@pytest.mark.parametrize("tree", [FIRST_VERSION, OPENCLAW, {}], ids=["first", "openclaw", "empty"])
def test_it_loads_and_is_changed_without_losing_anything(
    tree: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "skerry.json"
    file.write_text(json.dumps(tree))
    environ = {"SKERRY_STATE_DIR": str(tmp_path)}
    first = load(environ)
    set_values(file, {"agents.defaults.timeoutSeconds": 77}, author=ConfigAuthor(environ=environ))
    again = load(environ)
    assert again.config.agents.defaults.timeout_seconds == 77
    assert again.config.models == first.config.models
    after = json.loads(file.read_text())
    after["agents"]["defaults"].pop("timeoutSeconds")
    before = json.loads(json.dumps(tree))
    before.setdefault("agents", {}).setdefault("defaults", {}).pop("timeoutSeconds", None)
    assert after | {"meta": {}} == before | {"meta": {}}


def test_what_the_first_version_knew_means_the_same(tmp_path: Path) -> None:
    (tmp_path / "skerry.json").write_text(json.dumps(FIRST_VERSION))
    loaded = load({"SKERRY_STATE_DIR": str(tmp_path)})
    assert [str(warning) for warning in loaded.warnings if "(mode" not in warning.message] == []
    assert loaded.config.gateway.port == 18790
    assert loaded.config.agents.defaults.model.primary == "openai/gpt-5.4-mini"
    assert loaded.config.models.embedded.threads == 2
