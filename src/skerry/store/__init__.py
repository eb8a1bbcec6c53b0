"""Schema, migrations, writer and all SQL of the state database; the mirrors."""

from skerry.store.store import DATABASE, Store, no_fault, open_store
from skerry.store.unit import Reader, Unit

__all__ = ["DATABASE", "Reader", "Store", "Unit", "no_fault", "open_store"]
