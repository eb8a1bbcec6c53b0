"""How what a model says becomes what a person reads: cut, shaped, held back (pure)."""
