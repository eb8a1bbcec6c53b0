"""Measures the search quality of the memory on data sets, compared with FTS5."""
