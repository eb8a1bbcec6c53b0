"""`skerry webhooks test` as a process, against a scripted gateway."""

from tests.support.fake_gateway import FakeGateway

from .conftest import Command


async def test_no_text_of_a_post_controls_the_terminal(
    gateway: FakeGateway, command: Command
) -> None:
    answer = {"sessionKey": "k", "model": None, "message": "pump\x1b[31m\noff"}
    gateway.answer("webhooks.test", answer)
    done = await command("webhooks", "test", "alarm")
    assert done.stdout.endswith(b"pump[31m\noff\n")
