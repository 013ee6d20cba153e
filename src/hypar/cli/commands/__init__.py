"""Commands, one file each, imported when named."""
