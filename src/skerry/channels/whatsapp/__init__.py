"""WhatsApp: the Cloud API of Meta."""
