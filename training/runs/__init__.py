"""A run on disk and in progress: its folder, plan, record, saved state, lock and logs."""
