"""Keys that are limited to namespaces: the lists of the owner that they may read."""

import base64

import pytest

from tests.support.memwal import Delegate
from tests.support.relayer import Lab


@pytest.mark.abuse(122)
async def test_a_limited_key_reads_no_name_of_another_namespace(lab: Lab) -> None:
    for name in ("private", "shared", "hidden"):
        lab.clock.now += 1
        await lab.post("/api/remember", {"text": name, "namespace": name})
    scoped, other = Delegate(seed=bytes(32)), Delegate(seed=bytes([1]) * 32)
    lab.keys.add(scoped, frozenset({"shared"}))
    lab.keys.add(other, frozenset({"shared", "hidden"}))
    for what in ("namespaces", "memories", "agents"):
        answer = await lab.get(f"/v1/owners/{lab.owner}/{what}?limit=1", by=scoped)
        cursor = base64.urlsafe_b64decode((answer.json().get("next_cursor") or "") + "==")
        text = answer.text + cursor.decode()
        assert "shared" in text or what == "memories"
        assert "private" not in text
        assert "hidden" not in text
        assert not answer.json().get("has_more")
