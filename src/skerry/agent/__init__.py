"""Runs one turn after another: prompt, model, tools, steering."""
