"""What people read, one file each: plans as tables, Markdown and HTML."""
