"""What ``verify`` can prove about a running agent, each line with its evidence."""
