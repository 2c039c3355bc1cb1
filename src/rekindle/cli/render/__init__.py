"""Print conversations, tables and reports on a terminal or into a pipe."""
