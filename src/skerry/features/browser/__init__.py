"""The tool `browser`: pages in a headless Chromium, whose only network is a filtering proxy."""
