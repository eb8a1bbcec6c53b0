"""Makes and measures the calibration of vectors: `python -m scripts.relevance`."""
