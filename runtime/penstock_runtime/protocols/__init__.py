"""Wire <-> request: one protocol a module or folder."""
