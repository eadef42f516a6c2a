"""The arithmetic of need and bytes, and the bracket, over integers and arrays."""
