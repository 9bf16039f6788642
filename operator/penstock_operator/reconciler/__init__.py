"""The reconciler: visits pools as they come due and, while this process leads, brings them to their specs."""
