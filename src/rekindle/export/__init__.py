"""Sessions told to others: as documents that people read, and as bundles that a store takes in."""
