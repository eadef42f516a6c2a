"""Pages of several sizes side by side in a block."""
