"""Caller on whose behalf memory is searched or written."""

from msgspec import Struct

from skerry.model.ids import SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin


class Asker(Struct, frozen=True):
    """A conversation on whose behalf a run of another one was started, and the sender in it."""

    key: SessionKey
    channel: str = ""
    """A chat platform's name; empty for a client of the gateway."""
    sender: tuple[str, ...] = ()
    """Typed keys of the person on the platform, such as `id:42`."""


class Caller(Struct, frozen=True):
    """The conversation that receives a run's answer, and the person for whom it runs."""

    key: SessionKey
    chat: PeerKind
    """Kind of the conversation: with one person, or with several."""
    origin: Origin
    """Origin of the request."""
    is_private: bool = False
    """True if only the owner takes part in the conversation."""
    channel: str = ""
    """A chat platform's name; empty for a client of the gateway."""
    sender: tuple[str, ...] = ()
    """Typed keys of the person on the platform, such as `id:42`."""
    behalf: tuple[Asker, ...] = ()
    """Conversations on whose behalf the run was started; it may do only what all of them may."""

    @property
    def askers(self) -> tuple[Asker, ...]:
        """Returns the value of `behalf` for a run that this one starts."""
        asker = Asker(self.key, self.channel, self.sender)
        return self.behalf if asker in self.behalf else (*self.behalf, asker)
