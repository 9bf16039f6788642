"""Types to CRDs, the charts' copies and the tables of the docs."""
