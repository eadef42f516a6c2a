"""How a plan changes with the quotas: break-points, and what one GiB more buys."""
