"""A gateway and a client that is let in, for one test."""

from tests.unit.gateway.conftest import rig, wire

__all__ = ("rig", "wire")
