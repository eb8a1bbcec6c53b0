"""Credentials of model providers: where they are kept, which is used next, which of them rests."""
