"""Schema, migrations, writer and all SQL of the state database; the mirrors."""
