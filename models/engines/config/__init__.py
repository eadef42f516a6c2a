"""A config.json: the section that describes the text model, and what is understood of it."""
