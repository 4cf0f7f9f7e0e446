"""Files and frames -> Series."""
