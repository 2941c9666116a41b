"""The command line of cotrans: the only place that knows typer and rich."""
