"""Planning of a pass: the drafts of all due pools become one plan."""
