"""The reconciler: reconciles pools as they come due, while this process leads."""
