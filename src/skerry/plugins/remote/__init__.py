"""Plugins that run as processes and exchange JSON-RPC over their pipes."""
