"""A decision as status and conditions report it."""
