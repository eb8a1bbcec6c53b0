"""Feature `audit`: shows and verifies the log of decisions of people and gates."""
