"""Shows what is not delivered, and lets a person send it again or give it up."""
