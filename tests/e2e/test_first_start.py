"""A first start and those after it, as a person has them: files, BOOT.md, the first meeting."""

from pathlib import Path

from skerry.client.client import GatewayClient
from skerry.testing.gateway import running_gateway

SCOPES = ("operator.read", "operator.write")


async def conversation_texts(client: GatewayClient, key: str) -> list[str]:
    """Returns the texts of a conversation."""
    payload = await client.request("chat.history", {"sessionKey": key})
    texts = []
    for message in payload["messages"]:
        content = message["content"]
        texts.append(content if isinstance(content, str) else content[0]["text"])
    return texts


async def test_each_start_does_the_checklist_once(tmp_path: Path) -> None:
    async with running_gateway(home=tmp_path) as gateway:
        workspace = tmp_path / "workspace"
        assert (workspace / "BOOTSTRAP.md").is_file()
        async with GatewayClient(gateway.address, scopes=SCOPES) as client:
            assert await conversation_texts(client, "agent:main:boot") == []
        (workspace / "BOOT.md").write_text("Look at the lamp.", encoding="utf-8")
        (workspace / "SOUL.md").write_text("mine", encoding="utf-8")
        for _ in range(3):  # a stop lets runs end, and reads the file no more
            await gateway.stop()
            await gateway.start()
        (workspace / "BOOT.md").unlink()
        await gateway.stop()
        await gateway.start()
        async with GatewayClient(gateway.address, scopes=SCOPES) as client:
            texts = await conversation_texts(client, "agent:main:boot")
        assert len(texts) == 6
        assert all("Look at the lamp." in text for text in texts[::2])
        assert (workspace / "SOUL.md").read_text(encoding="utf-8") == "mine"
