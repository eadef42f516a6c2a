"""Parts of a sweep: cut, kept on disk, and shared out."""
