"""Everything that proves the source: unit, property, end to end, conformance."""
