"""The commands, a file per group, and their options. What a command does is in the files of the folder above."""
