"""Commands whose answer is a table, or a page of them."""
