"""What a person sees: tables, bars, the live view."""
