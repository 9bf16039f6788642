"""Act step: writes children, statuses, limits and Events; decides nothing."""
