"""Pure decisions: what was observed becomes a plan. Time is an argument; nothing here reads or writes."""
