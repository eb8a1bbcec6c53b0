"""The embedded model on a machine that a test describes."""

from functools import partial

from skerry.features.embedded_model.hardware import Machine
from skerry.features.embedded_model.model import FileModel
from skerry.providers.embedded_model import ModelParts
from skerry.sdk.features import model_apis


def parts_on(machine: Machine) -> ModelParts:
    """Returns the parts of a catalogue whose embedded model runs on this machine."""
    return ModelParts(model_apis(), partial(FileModel, machine=machine))
