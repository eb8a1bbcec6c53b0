"""Two thousand turns through a small window: everything that was said can still be asked for.

The model is a script that knows nothing but the bytes of its request. Asked for a fact it answers
only if the fact's text is in there; else it calls `session_search` with words of the question, and
answers from the result. The same without the tool fails, which shows that the tool is what counts.
"""

import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Final

import pytest
from msgspec.structs import replace

from skerry.config.agents import AgentDefaults, AgentsConfig
from skerry.config.context_limits import Compaction, MemoryFlush
from skerry.features.files.read_tool import Read
from skerry.features.openai_completions.request import request_body
from skerry.model.message import ToolCall, ToolResultMessage, UserMessage
from skerry.model.run import StopReason
from skerry.ports.model import ModelRequest
from skerry.sessions.summary import SYSTEM
from skerry.store import compactions, sessions
from skerry.testing.model import MODEL, ScriptedModel, Step
from tests.support.core import MAIN, Core, open_core

TURNS: Final = 2000
FACTS: Final = 40
EARLY: Final = 200
"""Turns among which the facts are told."""
WINDOW: Final = 8192
SEED: Final = 4
THINGS: Final = ("boat", "bicycle", "garden", "piano", "locker", "cellar", "tent", "kettle")
PEOPLE: Final = ("Anna", "Bruno", "Clara", "Dario", "Elena", "Fabio", "Greta", "Hugo")
PLACES: Final = ("Lugano", "Porto", "Bergen", "Krakow", "Tartu", "Ghent", "Malmo", "Riga")
FACT: Final = re.compile(r"The code of (\w+)'s (\w+) in (\w+) is (\w+)")
ASKED: Final = re.compile(r"What is the code of (\w+)'s (\w+) in (\w+)\?")


@dataclass(frozen=True)
class Fact:
    """Something the person says once, and asks for much later."""

    who: str
    what: str
    where: str
    code: str

    @property
    def told(self) -> str:
        return f"The code of {self.who}'s {self.what} in {self.where} is {self.code}."

    @property
    def question(self) -> str:
        return f"What is the code of {self.who}'s {self.what} in {self.where}?"


def seeded() -> random.Random:
    return random.Random(SEED)  # noqa: S311 - the same each time, and no secret


def facts(rng: random.Random) -> list[Fact]:
    places = [(who, what, where) for who in PEOPLE for what in THINGS for where in PLACES]
    return [Fact(*place, code=f"{rng.randrange(16**6):06x}") for place in rng.sample(places, FACTS)]


def read_bytes(request: ModelRequest) -> str:
    """Returns the body of the request that a provider receives."""
    return request_body(request, "max_tokens").decode()


@dataclass
class Reader:
    """The model: a function of the text of its request."""

    requests: list[int] = field(default_factory=list)
    """Tokens of each."""

    def __call__(self, request: ModelRequest) -> Sequence[Step]:
        text = read_bytes(request)
        size = len(text) // 4
        assert size + request.model.max_tokens <= WINDOW
        self.requests.append(size)
        if request.system == SYSTEM:
            return ["They talked about codes and files, at length."]
        last = request.history.messages[-1]
        number = len(self.requests)
        question = ASKED.search(last.text)
        if isinstance(last, ToolResultMessage):
            return self._answer(request, text, last)
        if question is not None:
            return self._known(question, text) or self._look(request, question, number)
        if "read" in last.text:
            return [ToolCall(f"c{number}", "read", {"path": "notes.txt"})]
        return ["Noted."]

    def _known(self, question: re.Match[str], text: str) -> Sequence[Step]:
        codes = [
            match[4] for match in FACT.finditer(text) if match.groups()[:3] == question.groups()
        ]
        return [f"It is {codes[-1]}."] if codes else []

    def _look(self, request: ModelRequest, question: re.Match[str], number: int) -> Sequence[Step]:
        if not any(tool.name == "session_search" for tool in request.tools):
            return ["I do not know."]
        query = " ".join(("code", *question.groups()))
        return [ToolCall(f"c{number}", "session_search", {"query": query})]

    def _answer(
        self, request: ModelRequest, text: str, result: ToolResultMessage
    ) -> Sequence[Step]:
        if result.tool_name != "session_search":
            return ["I read it."]
        texts = [
            message.text for message in request.history.messages if isinstance(message, UserMessage)
        ]
        question = [match for text in texts if (match := ASKED.search(text))]
        return self._known(question[-1], text) or ["I do not know."]


@dataclass
class Course:
    """The results of a conversation of many turns."""

    right: int
    compactions: int
    early: float
    """Tokens a turn, at the begin."""
    late: float
    cpu: float
    """CPU of a late turn, in early ones."""


async def converse(core: Core, reader: Reader, turns: int, rng: random.Random) -> Course:
    core.models.info = replace(MODEL, context_window=WINDOW, max_tokens=512)
    (core.workspace / "notes.txt").write_text("tide and time wait for no man\n" * 60)
    known = facts(rng)
    told = dict(zip(rng.sample(range(EARLY), FACTS), known, strict=True))
    spent: list[float] = []
    sent: list[int] = []
    for turn in range(turns):
        before, begin = sum(reader.requests), time.process_time()
        text = told[turn].told if turn in told else f"Turn {turn}: read the notes again."
        result = await core.ask(text, f"r{turn}")
        assert result.stop_reason is StopReason.DONE
        spent.append(time.process_time() - begin)
        sent.append(sum(reader.requests) - before)
    answers = [(await core.ask(fact.question)).payloads[-1] for fact in known]
    session = await core.store.read(lambda db: sessions.find(db, str(MAIN)))
    assert session is not None
    state = await core.store.read(lambda db: compactions.state(db, session.session_id))
    part = turns // 5
    return Course(
        right=sum(fact.code in answer for fact, answer in zip(known, answers, strict=True)),
        compactions=state.count,
        early=mean(sent[part : 2 * part]),
        late=mean(sent[-part:]),
        cpu=mean(spent[-part:]) / mean(spent[part : 2 * part]),
    )


AGENTS: Final = AgentsConfig(
    defaults=AgentDefaults(compaction=Compaction(memory_flush=MemoryFlush(enabled=False)))
)


@pytest.mark.full("half a minute")
async def test_memory_is_not_lost_at_compaction_in_two_thousand_turns(tmp_path: Path) -> None:
    reader = Reader()
    async with open_core(tmp_path, ScriptedModel(reader), agents=AGENTS) as core:
        course = await converse(core, reader, TURNS, seeded())
        assert len(await core.transcript()) > 2 * TURNS
    assert course.right == FACTS
    assert course.compactions > 20
    assert course.late < course.early * 1.2
    assert course.cpu < 2.0


async def test_without_recall_what_was_compacted_cannot_be_answered(tmp_path: Path) -> None:
    reader = Reader()
    async with open_core(tmp_path, ScriptedModel(reader), agents=AGENTS, tools=(Read(),)) as core:
        course = await converse(core, reader, EARLY * 2, seeded())
    assert course.compactions > 2
    assert course.right < FACTS // 4
