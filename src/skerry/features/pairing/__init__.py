"""Lets the owner decide which senders of chat platforms may write in direct chats."""
