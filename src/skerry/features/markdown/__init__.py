"""Feature `markdown`: renders Markdown as HTML for the page."""
