"""What a model costs: its work counted part by part, and the operations that really run."""
