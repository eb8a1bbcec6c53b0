"""How a model is asked to think when it refuses the first way."""

import pytest

from skerry.model.errors import ModelRequestError
from skerry.model.message import Usage
from skerry.model.thinking import ThinkingLevel
from skerry.ports.model import History, ModelInfo, ModelReply, ModelRequest, ReplyListener
from skerry.providers.retry import Downgrades

REQUEST = ModelRequest(ModelInfo("p", "m", "M"), "", History(), thinking=ThinkingLevel.LOW)
REFUSED = ModelRequestError("P refused the request (400): thinking is not supported")


class Model:
    """Refuses all forms but the empty one; `says` comes before the refusal."""

    def __init__(self, says: str = "") -> None:
        self.says = says
        self.asked: list[str] = []

    async def ask(self, form: str, listener: ReplyListener) -> ModelReply:
        self.asked.append(form)
        if self.says:
            listener.on_text(self.says)
        if form:
            raise REFUSED
        return ModelReply((), "stop", Usage())


async def test_forms_that_were_refused_are_not_tried_again_however_many_there_are() -> None:
    model, downgrades = Model(), Downgrades[str]()
    for forms in (["fixed", "adaptive", ""], ["adaptive", ""], [""], ["fixed", ""]):
        await downgrades.ask(REQUEST, ReplyListener(), forms, model.ask)
    assert model.asked == ["fixed", "adaptive", "", "", "", ""]


async def test_a_model_that_has_spoken_is_not_asked_another_way() -> None:
    model, texts = Model("half"), list[str]()
    with pytest.raises(ModelRequestError):
        await Downgrades[str]().ask(REQUEST, ReplyListener(texts.append), ["low", ""], model.ask)
    assert (model.asked, texts) == (["low"], ["half"])
