"""The configured model file, or the packaged one."""

from skerry.config.models import EmbeddedConfig
from skerry.features.embedded_model.hardware import Machine
from skerry.features.embedded_model.packaged import embedded_info
from skerry.features.embedded_model.provider import EmbeddedProvider, EmbeddedSettings
from skerry.model.errors import ModelUnavailableError
from skerry.ports.model import ModelInfo, ModelProvider
from skerry.providers.embedded_model import REMEDY, UNUSABLE, EmbeddedHost
from skerry.providers.retry import RetryingProvider


class FileModel:
    """Implements `providers.embedded_model.EmbeddedModel`."""

    def __init__(self, host: EmbeddedHost, machine: Machine | None = None) -> None:
        self._machine = machine or Machine.detected()
        self._provider = EmbeddedProvider(host, self._machine)
        self._retrying = RetryingProvider(self._provider)

    @property
    def starting(self) -> bool:
        """Returns true while its process loads the model."""
        return self._provider.starting

    def choose(self, config: EmbeddedConfig) -> tuple[ModelProvider, ModelInfo]:
        """Returns the configured model, or the demonstration model."""
        is_packaged = config.file is None
        file = config.file.expanduser() if config.file else self._machine.packaged
        if file is None:
            raise ModelUnavailableError(UNUSABLE, REMEDY)
        self._provider.use(
            EmbeddedSettings(file, config.threads, config.context_window, is_tiny=is_packaged)
        )
        return self._retrying, embedded_info(file, config.context_window, packaged=is_packaged)
