"""Feature `web`: the tools `web_fetch` and `web_search`."""
