"""The reference of the protocol is current and complete."""

from scripts.protocol import EVENTS, PAGE, about, page
from skerry.gateway.dispatch import MethodTable
from skerry.policy import access


def test_the_reference_of_the_protocol_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make reference"


def test_every_method_and_every_event_has_a_sentence() -> None:
    assert EVENTS.keys() == access.EVENTS.keys()
    assert [
        method.name for method in MethodTable().methods if not about(method).endswith(".")
    ] == []
