"""Credentials of model providers: storage, choice, renewal and cooldowns."""
