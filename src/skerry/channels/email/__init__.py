"""E-mail: IMAP with IDLE, and SMTP."""
