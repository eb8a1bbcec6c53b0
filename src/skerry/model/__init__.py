"""The words of the system: ids, messages, events, errors; no I/O."""
