"""The integer program of an instance: variables, domains, and one function a rule."""
