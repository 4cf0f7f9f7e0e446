"""What the commands do, from files to files."""
