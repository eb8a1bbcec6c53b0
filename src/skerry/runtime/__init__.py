"""Processes each message in a run: admission, prompt, model, tools, delivery."""
