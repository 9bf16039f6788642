"""The state of files, batches and lines, behind one interface with two backends."""
