"""`kubectl penstock tune`: a Job that measures settings for a pool, and the policy that has the best as its candidate."""
