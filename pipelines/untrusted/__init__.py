"""Files that nobody vouches for, read without running anything in them and within bounds that are known beforehand."""
