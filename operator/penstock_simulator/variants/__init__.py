"""A simulated pool with variants: unlike pods behind one Service or one router, and what they cost. Pure."""
