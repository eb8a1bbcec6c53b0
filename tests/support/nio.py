"""A person with a client of others: matrix-nio, in an environment of its own."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import anyio
import anyio.to_thread

from tests.support.mocks import program
from tests.support.synapse import Person

_PROGRAM: Final = Path(__file__).with_name("nio_program.py")


class Nio:
    """The client of one person; each call waits for its answer."""

    def __init__(self, person: Person, asked: IO[str], answers: IO[str]) -> None:
        self.id = person.id
        self.person = person
        self._asked = asked
        self._answers = answers

    def ask(self, what: str, **more: Any) -> Any:
        """Lets the program do something; returns its answer. Blocks."""
        self._asked.write(json.dumps({"do": what, **more}) + "\n")
        self._asked.flush()
        line = self._answers.readline()
        assert line, "the program of matrix-nio ended"
        return json.loads(line)

    async def do(self, what: str, **more: Any) -> Any:
        """Lets the program do something; returns its answer."""
        return await anyio.to_thread.run_sync(lambda: self.ask(what, **more))

    async def say(self, room: str, text: str, **more: Any) -> str:
        """Writes an encrypted message; returns the id of its event."""
        content = {"msgtype": "m.text", "body": text, **more}
        return str(await self.do("say", room=room, content=content))

    async def read(self, room: str, sender: Person, count: int) -> list[dict[str, Any]]:
        """Returns the sender's messages of the room, once there are as many."""
        with anyio.fail_after(120):
            while True:
                heard = await self.do("heard")
                rows = [row for row in heard if (row["room"], row["sender"]) == (room, sender.id)]
                if len(rows) >= count:
                    return rows
                await anyio.sleep(0.1)


@contextmanager
def client(person: Person, folder: Path) -> Iterator[Nio]:
    """Runs the client of a person, with its keys in `folder`."""
    python = program("SKERRY_MATRIX_PYTHON", ".venv-matrix/bin/python")
    folder.mkdir(parents=True, exist_ok=True)
    names = [person.url, person.id, person.device, person.token, str(folder)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [python, "-P", str(_PROGRAM), *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline().strip() == '"ready"', (folder / "log").read_text()
            yield Nio(person, process.stdin, process.stdout)
        finally:
            process.kill()
            process.wait(60)
            process.stdin.close()
            process.stdout.close()


def texts(rows: list[dict[str, Any]]) -> list[str]:
    """Returns the texts of messages; every one of them was decrypted."""
    assert all(row["decrypted"] and not row["unreadable"] for row in rows), rows
    return [row["content"]["body"] for row in rows]
