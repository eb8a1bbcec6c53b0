"""The methods `memory.*` over a real socket."""

from pathlib import Path

from skerry.model.memory import MemoryMode
from skerry.testing.memory import FakeBackend, hit
from tests.support.gateway import Rig, running_gateway
from tests.support.memory import MemoryRig, memory_rig
from tests.support.wire import Wire, connected


def with_hits(tmp_path: Path) -> MemoryRig:
    transcript = hit("sessions/1.md", "User: no", 0.5, session="agent:main:telegram:direct:7")
    return memory_rig(tmp_path / "home", FakeBackend([hit(), transcript]))


async def test_a_person_searches_with_explanations(tmp_path: Path) -> None:
    memory = with_hits(tmp_path)
    async with (
        running_gateway(tmp_path, memory=memory.service) as rig,
        connected(rig.url) as wire,
    ):
        params = {"query": "dentist", "limit": 9, "source": "memory", "path": "memory/"}
        payload = await wire.call("memory.search", {**params, "explain": True})
        assert payload["mode"] == MemoryMode.TEXT
        first, second = payload["results"]
        assert first["text"] == "The dentist is in Mill Road."
        assert first["explanation"] == [
            {"name": "text", "value": 0.9, "means": "how well its words fit"}
        ]
        assert second["sessionKey"] == "agent:main:telegram:direct:7"
        (question,) = memory.backend.questions
        assert (question.text, question.limit, question.path) == ("dentist", 9, "memory/")
        error = (await wire.ask("memory.search", {"query": "x", "agentId": "nobody"}))["error"]
        assert "unknown agent" in error["message"]


async def test_a_note_is_written_read_and_taken_out(tmp_path: Path) -> None:
    memory = with_hits(tmp_path)
    async with (
        running_gateway(tmp_path, memory=memory.service) as rig,
        connected(rig.url) as wire,
    ):
        noted = await wire.call("memory.write", {"text": "Rome", "section": "Places"})
        assert (noted["path"], noted["startLine"]) == ("MEMORY.md", 3)
        payload = await wire.call("memory.get", {"path": "MEMORY.md", "from": 3})
        assert payload["text"].startswith("- Rome <!-- skerry:")
        (note,) = payload["notes"]
        assert (note["id"], note["line"], note["origin"]) == (noted["id"], 3, "owner")
        assert (note["where"], note["edited"]) == ("gateway", False)
        undone = await wire.call("memory.undo", {"id": noted["id"]})
        assert undone["text"] == "Rome"
        error = (await wire.ask("memory.undo", {"id": noted["id"]}))["error"]
        assert error["details"]["code"] == "memory.note"
        error = (await wire.ask("memory.get", {"path": "USER.md"}))["error"]
        assert error["details"]["code"] == "memory.path"


async def test_who_may_only_read_writes_nothing(tmp_path: Path) -> None:
    async with (
        running_gateway(tmp_path, memory=with_hits(tmp_path).service) as rig,
        connected(rig.url, scopes=["operator.read"]) as wire,
    ):
        assert (await wire.call("memory.search", {"query": "dentist"}))["results"]
        for method, params in (("write", {"text": "x"}), ("undo", {"id": "0123456789"})):
            error = (await wire.ask(f"memory.{method}", params))["error"]
            assert error["details"]["missingScope"] == "operator.write"


async def test_where_another_has_the_slot_that_is_said(rig: Rig, wire: Wire) -> None:
    assert rig.context.memory is None
    error = (await wire.ask("memory.search", {"query": "x"}))["error"]
    assert (error["code"], "slot" in error["message"]) == ("UNAVAILABLE", True)


async def test_files_are_listed_opened_and_saved_unless_somebody_changed_them(
    tmp_path: Path,
) -> None:
    memory = with_hits(tmp_path)
    async with (
        running_gateway(tmp_path, memory=memory.service) as rig,
        connected(rig.url) as wire,
    ):
        noted = await wire.call("memory.write", {"text": "Rome", "section": "Places"})
        memory.put("memory/2026-11-21.md", "- rain\n")
        listed = await wire.call("memory.files", {"source": "memory"})
        assert [file["path"] for file in listed["files"]] == ["MEMORY.md", "memory/2026-11-21.md"]
        assert (listed["files"][1]["day"], listed["total"]) == ("2026-11-21", 2)
        assert (await wire.call("memory.files", {"limit": 1}))["total"] == 2
        (note,) = (await wire.call("memory.notes"))["notes"]
        assert (note["path"], note["text"], note["id"]) == ("MEMORY.md", "Rome", noted["id"])
        read = await wire.call("memory.file", {"path": "MEMORY.md"})
        assert [note["id"] for note in read["notes"]] == [noted["id"]]
        fields = {"path": "MEMORY.md", "text": "mine\n", "baseHash": read["hash"]}
        saved = await wire.call("memory.save", fields)
        assert not saved["created"]
        assert memory.backend.touched, "the next search looks at it"
        error = (await wire.ask("memory.save", fields))["error"]
        assert error["details"]["code"] == "memory.changed"
        assert (memory.workspace / "MEMORY.md").read_text() == "mine\n"
        for path in ("USER.md", "memory/../USER.md", "memory/a.txt"):
            error = (await wire.ask("memory.save", fields | {"path": path}))["error"]
            assert error["details"]["code"] in {"memory.path", "memory.save"}


async def test_who_may_only_read_saves_nothing(tmp_path: Path) -> None:
    async with (
        running_gateway(tmp_path, memory=with_hits(tmp_path).service) as rig,
        connected(rig.url, scopes=["operator.read"]) as wire,
    ):
        given = {"path": "MEMORY.md", "text": "x", "baseHash": ""}
        error = (await wire.ask("memory.save", given))["error"]
        assert error["details"]["code"] == "MISSING_SCOPE"
        assert (await wire.call("memory.file", {"path": "MEMORY.md"}))["hash"] == ""
