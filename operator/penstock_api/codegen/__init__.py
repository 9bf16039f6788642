"""Code generation: CRDs, their copies in the charts, and the tables of the docs."""
