"""Answers with nothing what clients ask of features that this gateway lacks."""
