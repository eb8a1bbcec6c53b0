"""The candidates of the calls of one run: profiles of the model first, then other models.

What rests is passed over while somebody else can answer. One call at a time finds out whether a
credential works again; the others go elsewhere, or wait for it where there is nobody else.
"""

import logging
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, Protocol

import anyio
from msgspec import Struct, field

from skerry.auth.cooldowns import NEVER, Availability, Key, Reason
from skerry.auth.credentials import Credentials
from skerry.auth.profiles import Profile
from skerry.model.errors import (
    ModelAuthError,
    ModelCoolingError,
    ModelError,
    ModelSignInError,
)
from skerry.model.run import Purpose
from skerry.ports.model import ModelInfo, ModelProvider
from skerry.ports.model_candidates import OWN_FAULT, CallTarget, FailedAttempt, ModelCandidate
from skerry.providers.model_health import ModelFailures, SilentAddresses, is_dead, is_silence
from skerry.providers.resolve import ModelTarget

logger = logging.getLogger(__name__)

Choice = tuple[ModelProvider, ModelInfo]
_NESTED: Final = frozenset({Purpose.FLUSH, Purpose.COMPACTION})
"""Purposes of calls inside another call, which may itself be the probe of the credential."""


class ModelOption(Struct, frozen=True):
    """One model with one credential, not opened yet."""

    ref: str
    target: ModelTarget | None = None
    """None for the embedded model, which has no endpoint."""
    profile: Profile | None = None
    embedded: Choice | None = None

    @property
    def name(self) -> str:
        """Returns the id of the profile; empty without one."""
        return self.profile.id if self.profile else ""

    @property
    def key(self) -> Key | None:
        """Returns the key of its cooldown; None for a model without a credential."""
        if self.profile is not None:
            return self.profile.key, self.ref
        if self.target is None or not self.target.endpoint.credentials:
            return None
        return f"environment/{self.target.info.provider}", self.ref

    @property
    def address(self) -> str:
        """Returns the base URL; empty for the embedded model."""
        return self.target.endpoint.base_url if self.target else ""

    @property
    def stamp(self) -> str:
        """Returns a fingerprint that changes with the credential."""
        if self.profile is not None:
            return self.profile.stamp
        credentials = self.target.endpoint.credentials if self.target else ()
        return sha256(b"\0".join(credentials)).hexdigest()[:16]


def _where_to_enter(entry: ModelOption) -> str:
    """Returns the remedy for a candidate whose key was refused."""
    provider = entry.profile.provider if entry.profile else entry.ref.partition("/")[0]
    command = f"Enter another key: skerry auth add {provider}."
    if entry.profile is not None or entry.key is None:
        return command
    return f"{command} The refused one is in the environment or in models.providers.{provider}."


class CredentialProbes(Struct):
    """Probes: calls that find out if a credential works again, and the waits for their end."""

    _ended: dict[Key, anyio.Event] = field(default_factory=dict)

    def end(self, key: Key) -> None:
        """Ends the waits for the probe of `key`."""
        event = self._ended.pop(key, None)
        if event is not None:
            event.set()

    async def wait(self, key: Key) -> None:
        """Waits for the end of the probe of `key`."""
        await self._ended.setdefault(key, anyio.Event()).wait()


class CandidateSource(Protocol):
    """The parts of the catalogue that candidates use, shared by all runs."""

    credentials: Credentials
    probes: CredentialProbes
    failures: ModelFailures
    silences: SilentAddresses

    def chain(self, need: CallTarget) -> list[str | None]:
        """Returns the models to try, in order; None means the first usable one."""
        ...

    async def entries(self, reference: str | None, need: CallTarget) -> list[ModelOption]:
        """Returns the options for one model. Raises `ModelError`."""
        ...

    async def open(self, entry: ModelOption, *, patient: bool) -> Choice:
        """Opens the provider of the entry. Raises `ModelError`."""
        ...


class CatalogTries:
    """Candidates of one run (`ports.model_candidates.Candidates`); starts with the last success."""

    def __init__(self, source: CandidateSource, need: CallTarget) -> None:
        self._source = source
        self._need = need
        self.attempts: list[FailedAttempt] = []
        """Failed attempts of the present call."""
        self._last_success: ModelOption | None = None
        self._current: ModelOption | None = None
        self._running = False
        self._models: deque[str | None] = deque()
        self._queue: deque[ModelOption] = deque()
        self._resting: list[ModelOption] = []
        self._late: deque[ModelOption] = deque()
        """Options at an address that did not answer recently; tried after all others."""
        self._silent: dict[tuple[str, str], ModelError] = {}
        """Addresses and models that did not answer in this run; an empty model means all there."""
        self._is_late = False
        """True when the present candidate is in `_silent`."""
        self._resorted = False
        self._holds = False
        """True when this call holds the probe of the last candidate."""

    async def next(self) -> ModelCandidate | None:
        """Returns the next candidate; None when this call has no further one."""
        if not self._running:
            self._begin()
        while (entry := await self._entry()) is not None:
            if self._passed_over(entry) or not self._may_begin(entry):
                continue
            if (candidate := await self._opened(entry)) is not None:
                return candidate
        candidate = await self._last_resort()
        self._running = candidate is not None
        return candidate

    def ended(self, candidate: ModelCandidate, error: ModelError | None) -> None:
        """Records the result of the candidate's call; `error` is None for a success."""
        del candidate
        entry = self._current
        if entry is None:
            return
        if isinstance(error, ModelAuthError) and error.remedy == ModelAuthError.remedy:
            error.remedy = _where_to_enter(entry)
        if error is None:
            self._last_success, self._running = entry, False
            if entry.profile is not None:
                self._source.credentials.used(entry.profile, self._need.session_id)
        elif isinstance(error, OWN_FAULT):
            self._running = False
        else:
            self.attempts.append(FailedAttempt(entry.ref, entry.name, error))
        self._note_address(entry, error)
        if error is not None or entry.ref in self._source.failures.last:
            self._source.failures.note(entry.ref, error)
        self._settle(entry, error)

    def _note_address(self, entry: ModelOption, error: ModelError | None) -> None:
        """Records that the address answered or did not."""
        if error is None:
            if entry.address in self._source.silences.until:
                self._source.silences.answered(entry.address)
        elif is_silence(error) and entry.address:
            self._silent[entry.address, "" if is_dead(error) else entry.ref] = error
            self._source.silences.note(entry.address)

    def _passed_over(self, entry: ModelOption) -> bool:
        """Returns True to skip an option that failed in this run or is tried after all others."""
        address = entry.address
        for of in ("", entry.ref):
            error = self._silent.get((address, of))
            if error is not None:
                self.attempts.append(FailedAttempt(entry.ref, entry.name, error))
                return True
        if self._is_late or not address:
            return False
        comes_last = any(silent == address for silent, _ in self._silent)
        silences = self._source.silences
        if comes_last or (address in silences.until and silences.comes_last(address)):
            self._late.append(entry)
            return True
        return False

    def released(self, candidate: ModelCandidate) -> None:
        """Releases the candidate after a cancelled call."""
        del candidate
        self._running = False
        if self._current is not None:
            self._give_back(self._current)

    def _settle(self, entry: ModelOption, error: ModelError | None) -> None:
        key, cooldowns = entry.key, self._source.credentials.cooldowns
        if key is None:
            return
        if error is None:
            if self._holds or key in cooldowns.by_key:
                cooldowns.succeeded(key)
        elif isinstance(error, OWN_FAULT):
            self._give_back(entry)
        else:
            now = self._source.credentials.clock.now_ms()
            row = cooldowns.failed(key, entry.stamp, error, now)
            if row is not None:
                logger.warning(
                    "%s cools down for %s: %s", row.profile, row.model, _until(row.until)
                )
        self._holds = False
        self._source.probes.end(key)

    def _begin(self) -> None:
        self._running, self._resorted = True, False
        self.attempts = []
        self._resting = []
        self._late.clear()
        self._is_late = False
        self._models = deque(self._source.chain(self._need))
        self._queue = deque([self._last_success] if self._last_success else ())

    async def _entry(self) -> ModelOption | None:
        """Returns the next option, cooling down or not."""
        while not self._queue:
            if not self._models:
                self._is_late = bool(self._late)
                return self._late.popleft() if self._late else None
            reference = self._models.popleft()
            try:
                entries = await self._source.entries(reference, self._need)
            except ModelError as error:
                self.attempts.append(FailedAttempt(reference or "the first usable", "", error))
                continue
            last_success = self._last_success
            self._queue.extend(
                entry for entry in entries if last_success is None or _differ(entry, last_success)
            )
        return self._queue.popleft()

    def _may_begin(self, entry: ModelOption) -> bool:
        """Returns True when the option may be tried now; otherwise stores it in `_resting`."""
        key = entry.key
        self._holds = False
        if key is None:
            return True
        credentials = self._source.credentials
        cooldowns, now = credentials.cooldowns, credentials.clock.now_ms()
        if key not in cooldowns.by_key:
            return True
        if cooldowns.verdict(key, entry.stamp, now) in {Availability.READY, Availability.PROBE}:
            self._holds = cooldowns.begin(key)
            return True
        self._resting.append(entry)
        return False

    async def _opened(self, entry: ModelOption) -> ModelCandidate | None:
        """Opens an option; returns None when its credential is unavailable."""
        self._current = entry
        patient = not (self._queue or self._models or self._late)
        opened = False
        try:
            choice = await self._source.open(entry, patient=patient)
            opened = True
        except ModelError as error:
            opened = True
            self.attempts.append(FailedAttempt(entry.ref, entry.name, error))
            if isinstance(error, ModelSignInError) or not isinstance(error, ModelAuthError):
                self._settle(entry, error)
            else:  # a missing credential costs no call, and may be set at any time
                self._give_back(entry)
            return None
        finally:
            if not opened:
                self._give_back(entry)
        return ModelCandidate(*choice, entry.name)

    def _give_back(self, entry: ModelOption) -> None:
        if self._holds and (key := entry.key) is not None:
            self._holds = False
            self._source.credentials.cooldowns.released(key)
            self._source.probes.end(key)

    async def _last_resort(self) -> ModelCandidate | None:
        """Returns the option that cools down first, when a person waits and no other is left.

        Waits for an option that another call is probing. Skips an expired sign-in.
        """
        resting = sorted(self._resting, key=self._until)
        self._resting = []
        for entry in resting:
            key = entry.key
            if key is None or self._resorted or self._until(entry) >= NEVER:
                continue
            if not await self._freed(entry, key):
                continue
            self._resorted = True
            candidate = await self._opened(entry)
            if candidate is not None:
                self._pass_over(
                    [resting_entry for resting_entry in resting if resting_entry is not entry]
                )
                return candidate
        if not self._resorted:
            self._pass_over(resting)
        return None

    async def _freed(self, entry: ModelOption, key: Key) -> bool:
        """Returns True when a cooling option may be tried after all; takes its probe then."""
        credentials = self._source.credentials
        cooldowns = credentials.cooldowns
        waited = False
        while not cooldowns.begin(key):
            if self._need.purpose in _NESTED:
                return True
            await self._source.probes.wait(key)
            waited = True
        self._holds = True
        verdict = cooldowns.verdict(key, entry.stamp, credentials.clock.now_ms())
        patient = self._need.purpose is Purpose.MESSAGE and not waited
        if verdict is not Availability.COOLING or patient:
            return True
        self._give_back(entry)
        return False

    def _until(self, entry: ModelOption) -> int:
        row = self._source.credentials.cooldowns.longest(entry.key) if entry.key else None
        return row.until if row else 0

    def _pass_over(self, entries: Sequence[ModelOption]) -> None:
        for entry in entries:
            row = self._source.credentials.cooldowns.longest(entry.key) if entry.key else None
            if row is not None:
                error = _cooling(row.reason, row.until, entry.profile)
                self.attempts.append(FailedAttempt(entry.ref, entry.name, error))


def _cooling(reason: Reason, until: int, profile: Profile | None) -> ModelError:
    if until >= NEVER and profile is not None:
        error = ModelCoolingError(f"its sign-in has ended (skerry auth login {profile.provider})")
    else:
        error = ModelCoolingError(f"cools down until {_until(until)} ({reason})")
    return error


def _until(until: int) -> str:
    if until >= NEVER:
        return "a person signs in again"
    return f"{datetime.fromtimestamp(until / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _differ(entry: ModelOption, second: ModelOption) -> bool:
    return (entry.ref, entry.key) != (second.ref, second.key)
