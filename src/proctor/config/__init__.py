"""What people type: its schema, and how it becomes resolved experiments."""
