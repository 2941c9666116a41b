"""One file per command: options, one call into `pipelines`, display. Heavy imports go inside the functions."""
