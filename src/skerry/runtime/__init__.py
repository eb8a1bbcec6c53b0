"""Carries one message after another through its run: admission, prompt, model, tools, delivery."""
