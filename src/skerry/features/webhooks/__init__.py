"""Feature `webhooks`: posts of other programs start runs, fenced as words of others."""
