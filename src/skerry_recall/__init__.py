"""Finds the passage that answers: chunks, terms, postings, vectors, fusion, embedding models."""
