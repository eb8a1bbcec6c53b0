"""Hits of the memory in the form for clients."""

from typing import Any

from skerry.features.memory.answers import hit_row
from skerry.model.origin import Origin
from skerry.model.provenance import Provenance, item
from skerry.testing.memory import hit


def test_a_hit_has_no_mark_of_who_noted_it() -> None:
    provenance = Provenance(Origin.OWNER, "gateway", "2026-11-22T08:24Z")
    (line,) = item("The dentist is Dr. Maro.", provenance)
    assert "<!-- skerry:" in line
    shown: Any = hit_row(hit(text=line))
    assert shown["text"] == "- The dentist is Dr. Maro."
