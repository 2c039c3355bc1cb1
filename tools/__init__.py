"""Programs that write documents: the pictures, and the reference of the commands."""
