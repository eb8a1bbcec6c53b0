"""Feature `sessions`: begins, resumes, searches, summarises and retries conversations."""
