"""Streams and sounds that are made: clips mixed into streams, and sounds of no class."""
