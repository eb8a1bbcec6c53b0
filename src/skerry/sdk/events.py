"""Events that a plugin sends to clients of the gateway."""

from skerry.sdk.parts import Event

__all__ = ("Event",)
