"""An evaluation in shares: parts that other machines run, and the table that they make together."""
