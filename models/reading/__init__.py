"""From a file or a mapping to a valid problem: parsing, overrides, references, faults."""
