"""What things cost: operation counts, memory and plots of them."""
