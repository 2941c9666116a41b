"""What a stream reads: files, folders, devices, addresses, pipes and feature files."""
