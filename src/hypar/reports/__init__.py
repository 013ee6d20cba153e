"""Output for people: plans as tables, Markdown and HTML, and the listings of the commands."""
