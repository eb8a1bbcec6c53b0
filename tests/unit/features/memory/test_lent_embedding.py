"""The embedding models of agents, lent to plugins: limits, and the models that may be asked."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from skerry.features.memory.lent_embedding import MAX_TEXTS, LentEmbeddings
from skerry.model.errors import PluginError
from skerry_recall.embed import EmbeddingModel, EmbeddingUnavailableError, Kind, normalised
from skerry_recall.embedder_chain import Chain
from skerry_recall.vector_space import MAX_PASSAGE_CHARACTERS, MAX_QUESTION_CHARACTERS


class Lengths:
    """A model whose vectors state the lengths of texts, and that records the texts."""

    model = EmbeddingModel("test", "lengths")
    bulk = 8
    dims = 2

    def __init__(self, *, local: bool = True) -> None:
        self.local = local
        self.asked: list[tuple[int, Kind]] = []
        self.is_broken = False

    async def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        if self.is_broken:
            raise EmbeddingUnavailableError("it is broken", "Mend it.")
        self.asked += [(len(text), kind) for text in texts]
        return normalised(np.array([[float(len(text)), 1.0] for text in texts], np.float32))


def lent(model: Lengths) -> LentEmbeddings:
    chain = Chain([model])
    return LentEmbeddings(lambda _: chain.embedder())


async def test_vectors_have_the_length_of_one_and_name_their_space() -> None:
    model = Lengths()
    embedded = await lent(model).embed(["abc", "x" * (MAX_PASSAGE_CHARACTERS + 1)])
    asked = await lent(model).embed(["x" * (MAX_QUESTION_CHARACTERS + 1)], is_query=True)
    assert (embedded.space, asked.space) == ("test/lengths#0", "test/lengths#0")
    squares = [sum(value * value for value in row) for row in embedded.vectors]
    assert squares == pytest.approx([1, 1])
    assert model.asked == [
        (3, Kind.PASSAGE),
        (MAX_PASSAGE_CHARACTERS, Kind.PASSAGE),
        (MAX_QUESTION_CHARACTERS, Kind.QUERY),
    ]
    relevance = lent(model).relevance(embedded.space, embedded.vectors[1], asked.vectors[0])
    assert relevance == pytest.approx(1, abs=0.001)


async def test_too_many_texts_are_refused_and_none_need_no_model() -> None:
    model = Lengths()
    with pytest.raises(PluginError, match="257 texts cannot be embedded at once"):
        await lent(model).embed(["text"] * (MAX_TEXTS + 1))
    assert (await lent(model).embed([])).vectors == ()
    assert not model.asked


async def test_texts_leave_this_machine_only_where_the_plugin_allows_it() -> None:
    model = Lengths(local=False)
    with pytest.raises(PluginError, match="does not run on this machine"):
        await lent(model).embed(["secret"], local_only=True)
    assert not model.asked
    await lent(model).embed(["open"])
    assert len(model.asked) == 1


@pytest.mark.parametrize("is_query", [True, False])
async def test_a_model_that_fails_is_an_error_with_its_remedy(*, is_query: bool) -> None:
    model = Lengths()
    model.is_broken = True
    with pytest.raises(PluginError, match="it is broken") as caught:
        await lent(model).embed(["text"], is_query=is_query)
    assert caught.value.remedy == "Mend it."
    with pytest.raises(PluginError, match="no embedding model") as caught:
        await LentEmbeddings(lambda _: None).embed(["text"])
    assert "skerry[memory]" in caught.value.remedy
