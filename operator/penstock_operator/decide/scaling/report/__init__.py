"""Reports of a decision: status fields, conditions and Events."""
