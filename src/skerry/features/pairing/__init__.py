"""Feature `pairing`: decides which senders of chat platforms may write in direct chats."""
