"""Measures how well the memory finds: data sets, figures, the product's own search beside FTS5."""
