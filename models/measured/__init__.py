"""What one rank measured: a device read through torch, and doubts about its readings."""
