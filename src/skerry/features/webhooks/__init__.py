"""Feature `webhooks`: HTTP posts start runs, with their text fenced as untrusted."""
