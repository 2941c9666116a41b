"""What `cotrans flops` says: attention, models, the tables of the paper, scaling and measured time."""
