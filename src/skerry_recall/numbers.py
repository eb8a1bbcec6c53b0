"""Array types, and numpy as `np`, imported at its first use: the import takes 20 MB and 0.1 s."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ("Bytes", "Doubles", "Floats", "Ints", "Longs", "Mask", "Rows", "SmallInts", "np")

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
    Doubles: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.int32]
    Longs: TypeAlias = NDArray[np.int64]
    Bytes: TypeAlias = NDArray[np.uint8]
    Mask: TypeAlias = NDArray[np.bool_]
    Rows: TypeAlias = NDArray[np.intp]
    SmallInts: TypeAlias = NDArray[np.int8]
else:
    Floats = Doubles = Ints = Longs = Bytes = Mask = Rows = SmallInts = Any

    class _Numpy:
        """The module numpy; caches each attribute at its first use."""

        def __getattr__(self, name: str) -> Any:
            """Returns an attribute of numpy."""
            value = getattr(import_module("numpy"), name)
            setattr(self, name, value)
            return value

    np = _Numpy()
