"""What one rank measured: a device read through torch, doubts about readings, a local view."""
