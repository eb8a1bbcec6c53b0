"""Renders Markdown as HTML for the page."""
