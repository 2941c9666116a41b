"""A user's own data: folders of clips, tables of events, and how they are divided."""
