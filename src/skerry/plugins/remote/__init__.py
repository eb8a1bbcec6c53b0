"""Plugins that are processes of their own, and speak JSON-RPC over their pipes."""
