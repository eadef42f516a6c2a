"""A model on disk: its weights by tensor, and the headers that list them."""
