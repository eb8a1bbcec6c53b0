"""Order in which the credentials of a provider are used (pure). Source: openclaw-behaviour 6.4."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from skerry.auth.profiles import Kind, Profile

_KINDS: Final = (Kind.OAUTH, Kind.TOKEN, Kind.API_KEY)


def split_reference(reference: str) -> tuple[str, str]:
    """Return `provider/model` and the profile behind `@`, or empty where none is pinned.

    A model's own name may hold an `@`: what follows is a profile only in the form `provider:name`,
    or a short name without `/` behind the last `@`.
    """
    model, at, profile = reference.rpartition("@")
    if not at or not model or not profile or "/" in profile:
        return reference, ""
    return model, profile


def pinned(profiles: Sequence[Profile], wanted: str) -> Profile | None:
    """Return the profile that a person named: by its id, or by what follows the provider."""
    ids = {one.id: one for one in reversed(profiles)}
    return ids.get(wanted) or next(
        (one for one in profiles if one.id.partition(":")[2] == wanted), None
    )


def ordered(
    profiles: Sequence[Profile],
    explicit: Sequence[str],
    last_used: Mapping[str, int],
    until: Callable[[Profile], int],
    now: int,
    sticky: str = "",
) -> list[Profile]:
    """Return the profiles in the order in which they are asked.

    Args:
        profiles: Those of one provider, the agent's own first.
        explicit: Ids in the order that a person gave; others are not used. Empty is round-robin:
            OAuth, tokens, keys, and among equals the one that was used longest ago.
        last_used: For each `Profile.key` a number that grows with each use.
        until: When the profile's rest for this model ends; those that rest come last, first the one
            that rests shortest.
        now: The time to which `until` compares.
        sticky: The `key` of the profile that this session keeps to; first unless it rests.

    """
    if explicit:
        by_id = {one.id: one for one in reversed(profiles)}
        found = [by_id[name] for name in dict.fromkeys(explicit) if name in by_id]
    else:
        found = sorted(
            profiles, key=lambda one: (_KINDS.index(one.kind), last_used.get(one.key, 0))
        )
    found.sort(key=lambda one: one.key != sticky)
    return sorted(found, key=lambda one: max(until(one) - now, 0))
