"""Queue modes, as people and as stored requests name them."""

import msgspec
import pytest

from skerry.model.queue import CHOICES, QueueMode, queue_mode
from skerry.model.run import RunRequest


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        (QueueMode.STEER, "steer queue queued steering STEER"),
        (QueueMode.COLLECT, "collect coalesce"),
        (QueueMode.FOLLOWUP, "followup"),
        (QueueMode.STEER_BACKLOG, "steer-backlog steer+backlog steer_backlog"),
        (QueueMode.INTERRUPT, "interrupt abort"),
    ],
)
def test_people_may_use_every_name(mode: QueueMode, names: str) -> None:
    assert {queue_mode(name) for name in names.split()} == {mode}


def test_another_name_is_refused_with_the_modes() -> None:
    with pytest.raises(ValueError, match="collect, steer, followup, steer-backlog, interrupt"):
        queue_mode("soon")
    assert "queue" not in CHOICES


def test_what_earlier_versions_stored_as_queue_is_still_a_run_of_its_own() -> None:
    stored = (
        b'{"run_id":"a","key":{"agent":"main","scope":["main"]},"text":"t","queue_mode":"queue"}'
    )
    assert msgspec.json.decode(stored, type=RunRequest).queue_mode is QueueMode.OWN_RUN
