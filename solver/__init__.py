"""How a question becomes an answer."""
