"""Order, pure: who is served next, and who has waited past its deadline. Time is an argument."""
