"""Feature `outbox`: lists undelivered parts of replies, and sends or drops them."""
