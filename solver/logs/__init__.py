"""Server logs: what each rank measured, whether the ranks agree, and what does not follow."""
