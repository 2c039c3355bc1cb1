"""Move sessions between stores, bundles and the files of other tools."""
