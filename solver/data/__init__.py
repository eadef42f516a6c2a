"""Data that travels with the package: the problem that `kvplan demo` solves."""
