"""Start child processes in groups of their own and end them. POSIX only."""
