"""Small problems by enumeration: every value of every variable, goal after goal."""
