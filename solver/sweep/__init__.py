"""Many scenarios of one problem, solved together."""
