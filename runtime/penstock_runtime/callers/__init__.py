"""Who is calling: API keys, tenants, priorities and rates (RUNTIME.md, Who is calling)."""
