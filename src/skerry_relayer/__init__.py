"""Serves an encrypted memory over the MemWal protocol, to the official SDKs and to others."""
