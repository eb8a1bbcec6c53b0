"""Conversion of a model's text into replies for people: split, shaped, held back (pure)."""
