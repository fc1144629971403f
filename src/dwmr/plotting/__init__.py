"""Pictures shared by several packages. Imports nothing but data and what lies below it."""
