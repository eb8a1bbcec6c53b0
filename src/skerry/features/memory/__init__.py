"""Keeps the index of notes and conversations up to date, and answers searches."""
