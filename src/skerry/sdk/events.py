"""Events that a plugin sends to clients of the gateway."""

from skerry.sdk.registrations import Event

__all__ = ("Event",)
