"""What each engine prints, and which of its figures follow from others."""
