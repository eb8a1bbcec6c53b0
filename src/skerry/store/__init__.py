"""Schema, migrations, writer and all SQL of the state database; the mirrors."""

from skerry.store.store import Store, check, nothing, open_store
from skerry.store.unit import Reader, Unit

__all__ = ["Reader", "Store", "Unit", "check", "nothing", "open_store"]
